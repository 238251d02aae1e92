#include "bench/model/layer_operands.hpp"

#include <utility>

namespace spjit::bench {

LayerOperands::LayerOperands(std::vector<NetworkLayer> layers, std::int64_t n, bool with_zeros)
    : layers_(std::move(layers)), buffers_(layers_, {n}) {
  if (!with_zeros) return;
  for (const NetworkLayer& layer : layers_) dense_.push_back(dense_of(layer.matrix));
}

side_by_side::Problem LayerOperands::problem(std::size_t layer, int threads) {
  return {&layers_[layer].matrix,
          dense_.empty() ? nullptr : dense_[layer].data(),
          n(),
          threads,
          buffers_.input(layer),
          buffers_.output(layer),
          nnz_of(layers_)};
}

std::string LayerOperands::check(std::size_t layer, double rounding) const {
  return check_layer(layers_, layer, buffers_, {rounding});
}

}  // namespace spjit::bench

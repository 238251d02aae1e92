#include "bench/convolution/conv_operands.hpp"

#include <utility>

namespace spjit::bench {

ConvOperands::ConvOperands(std::vector<ConvLayer> layers, std::int64_t batch)
    : network_(std::move(layers)),
      nchw_(network_.layers, Layout::row_major, batch),
      nhwc_(network_.layers, Layout::tokens_major, batch) {
  for (const ConvLayer& layer : network_.layers) dense_.push_back(dense_of(layer.weights));
}

ConvProblem ConvOperands::problem(std::size_t layer, Layout layout, int threads) {
  ImageBuffers& buffers = images(layout);
  return {&network_.layers[layer],
          dense_[layer].data(),
          network_.biases[layer].data(),
          batch(),
          threads,
          buffers.input(layer),
          buffers.output(layer),
          nnz_of(network_.layers)};
}

}  // namespace spjit::bench

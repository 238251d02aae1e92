#include "kernels/cuda/code/cuda_layer.hpp"

#include <fmt/format.h>

namespace spjit {

std::int64_t b_rows(const CudaLayer& layer, std::int64_t cols) noexcept {
  return layer.rules().stored_b(layer.sizes(cols, 0)).rows;
}

std::int64_t b_columns(const CudaLayer& layer, std::int64_t n) noexcept {
  return layer.rules().stored_b(layer.sizes(0, n)).columns;
}

Refusal wrong_image(const CudaLayer& layer, const LayerSizes& sizes) {
  if (!layer.convolution) return Refusal::none();
  const Convolution& of = *layer.convolution;
  const std::int64_t columns = of.channels * of.kernel_height * of.kernel_width;
  const std::int64_t pixels = of.output_height() * of.output_width();
  const std::int64_t least_ldb = layer.b_layout == Layout::tokens_major ? 1 : of.height * of.width;
  if (sizes.cols == columns && sizes.n == pixels && sizes.ldb >= least_ldb) {
    return Refusal::none();
  }
  return Refusal(fmt::format(
      "A has {} columns, n is {} and ldb {} of a convolution of {}; expected {}, {} and at least "
      "{}",
      sizes.cols, sizes.n, sizes.ldb, to_string(of), columns, pixels, least_ldb));
}

}  // namespace spjit

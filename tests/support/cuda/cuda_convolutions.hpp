#pragma once

/// @file
/// Convolutions on the emulated driver, beside the host's family `reference` and beside the product
/// with all patches, which a plain loop makes.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "plan/problem.hpp"
#include "tests/support/convolution_cases.hpp"
#include "tests/support/cuda/cuda_layers.hpp"

namespace spjit::testing_support {

/// A problem, with its groups as one, that runs as it was compiled.
[[nodiscard]] inline LayerCase convolution_case(const Problem& problem, std::int64_t m1) {
  const Problem checked = checked_problem(problem);
  CudaKernelSpec spec = cuda_spec(m1, checked.n.value);
  spec.ldb = checked.ldb();
  spec.ldc = checked.ldc();
  spec.layer = {checked.epilogue, checked.b.layout, checked.c.layout, checked.runtime_values,
                checked.convolution};
  return layer_case(*checked.a, spec);
}

/// The case as a product with B `[k x n]` for each image of the batch.
[[nodiscard]] inline LayerCase product_of(LayerCase item) {
  item.spec.layer.convolution.reset();
  item.spec.layer.b_layout = Layout::row_major;
  item.spec.ldb = item.sizes.b.ld = item.sizes.n;
  item.sizes.b.distance = item.matrix.cols * item.sizes.n;
  return item;
}

/// All patches of the images that `x` begins with.
[[nodiscard]] inline std::vector<float> patches_of(const LayerCase& item,
                                                   const std::vector<float>& x) {
  const Convolution& of = *item.spec.layer.convolution;
  const bool has_pixels = item.spec.layer.b_layout == Layout::tokens_major;
  const std::int64_t ld = item.sizes.b.ld;
  std::vector<float> b;
  for (std::int64_t image = 0; image < item.sizes.batch; ++image) {
    for (std::int64_t c = 0; c < of.channels; ++c) {
      for (std::int64_t r = 0; r < of.kernel_height; ++r) {
        for (std::int64_t s = 0; s < of.kernel_width; ++s) {
          for (std::int64_t p = 0; p < of.output_height(); ++p) {
            for (std::int64_t q = 0; q < of.output_width(); ++q) {
              const std::int64_t y = p * of.stride_height - of.pad_top + r * of.dilation_height;
              const std::int64_t at = q * of.stride_width - of.pad_left + s * of.dilation_width;
              const bool inside = y >= 0 && y < of.height && at >= 0 && at < of.width;
              const std::int64_t pixel = y * of.width + at;
              const std::int64_t place = has_pixels ? pixel * ld + c : c * ld + pixel;
              b.push_back(inside ? x[index(image * item.sizes.b.distance + place)] : 0.0F);
            }
          }
        }
      }
    }
  }
  return b;
}

/// C of the product with all patches, of a kernel that is emitted for it.
[[nodiscard]] inline std::vector<float> product_with_patches(const LayerCase& item,
                                                             LayerOperands operands) {
  const LayerCase product = product_of(item);
  LayerOperands of_product(product);
  std::vector<float> b = patches_of(item, operands.b());
  of_product.b() = std::move(b);
  return launch_layer(layer_kernel(product), of_product);
}

}  // namespace spjit::testing_support

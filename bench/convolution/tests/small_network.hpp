#pragma once

/// @file
/// A small convolutional network that tests run: strides, padding, groups, a 1x1 layer.

#include <vector>

#include "bench/convolution/network.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit::testing_support {

[[nodiscard]] inline std::vector<bench::ConvLayer> small_network() {
  const Convolution stem{.channels = 3,
                         .height = 12,
                         .width = 10,
                         .kernel_height = 3,
                         .kernel_width = 5,
                         .stride_height = 2,
                         .stride_width = 2,
                         .pad_top = 1,
                         .pad_left = 2,
                         .pad_bottom = 1,
                         .pad_right = 2};
  const Convolution pointwise{.channels = 16, .height = 6, .width = 5};
  const Convolution depthwise{.channels = 16,
                              .height = 6,
                              .width = 5,
                              .kernel_height = 3,
                              .kernel_width = 3,
                              .pad_top = 1,
                              .pad_left = 1,
                              .pad_bottom = 1,
                              .pad_right = 1,
                              .groups = 16};
  return {{"stem", stem, random_matrix(16, 45, 0.5, 1), "drawn"},
          {"pointwise", pointwise, random_matrix(16, 16, 0.5, 2), "drawn"},
          {"depthwise", depthwise, random_matrix(16, 9, 0.3, 3), "drawn"},
          {"pointwise again", pointwise, random_matrix(16, 16, 0.5, 4), "drawn"}};
}

}  // namespace spjit::testing_support

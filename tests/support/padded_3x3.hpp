#pragma once

/// @file
/// The convolution that most networks are made of.

#include <cstdint>

#include "spjit/convolution.hpp"

namespace spjit::testing_support {

/// Of a kernel of 3 x 3 with padding 1: results are as large as the image.
[[nodiscard]] inline Convolution padded_3x3(std::int64_t channels, std::int64_t height,
                                            std::int64_t width) {
  return {.channels = channels,
          .height = height,
          .width = width,
          .kernel_height = 3,
          .kernel_width = 3,
          .pad_top = 1,
          .pad_left = 1,
          .pad_bottom = 1,
          .pad_right = 1};
}

}  // namespace spjit::testing_support

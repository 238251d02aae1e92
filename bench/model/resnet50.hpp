#pragma once

/// @file
/// The convolutions of ResNet-50.

#include <cstdint>
#include <string>
#include <vector>

#include "spjit/convolution.hpp"

namespace spjit::bench {

struct Resnet50Layer {
  std::string name;  ///< DLMC's, "bottleneck_2_block_group1_1_1"
  std::int64_t filters = 0;
  Convolution shape;  ///< of an image of 224 x 224

  [[nodiscard]] std::int64_t weights_of_filter() const noexcept {
    return shape.channels * shape.kernel_height * shape.kernel_width;
  }
};

/// ResNet-50 (He et al., table 1) with 53 convolutions: a 7x7 stem, four groups of 3, 4, 6 and 3
/// bottleneck blocks, the first of each with a projection, which comes first here. It is version
/// 1.5, the one of TensorFlow, whose layers DLMC has, and of PyTorch: the stride of 2 is in the 3x3
/// of the first block of groups 2 to 4, not in its first 1x1. Padding is the same on all sides.
[[nodiscard]] std::vector<Resnet50Layer> resnet50_layers();

}  // namespace spjit::bench

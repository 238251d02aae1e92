#include "bench/model/resnet50.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>

namespace spjit::bench {
namespace {

/// A square kernel, padded so that a stride of 1 keeps the size.
Convolution square_convolution(std::int64_t channels, std::int64_t size, std::int64_t kernel,
                               std::int64_t stride) {
  const std::int64_t pad = kernel / 2;
  return {.channels = channels,
          .height = size,
          .width = size,
          .kernel_height = kernel,
          .kernel_width = kernel,
          .stride_height = stride,
          .stride_width = stride,
          .pad_top = pad,
          .pad_left = pad,
          .pad_bottom = pad,
          .pad_right = pad};
}

}  // namespace

std::vector<Resnet50Layer> resnet50_layers() {
  constexpr std::array k_blocks = {3, 4, 6, 3};
  std::vector<Resnet50Layer> layers = {{"initial_conv", 64, square_convolution(3, 224, 7, 2)}};
  std::int64_t channels = 64;
  std::int64_t size = 56;  // after a pooling
  for (std::size_t group = 0; group < k_blocks.size(); ++group) {
    const std::int64_t width = std::int64_t{64} << group;
    for (int block = 0; block < k_blocks[group]; ++block) {
      const std::string suffix =
          block == 0 ? fmt::format("block_group_projection_block_group{}", group + 1)
                     : fmt::format("block_group{}_{}_1", group + 1, block);
      const std::int64_t stride = block == 0 && group > 0 ? 2 : 1;
      if (block == 0) {
        layers.push_back({"bottleneck_projection_" + suffix, 4 * width,
                          square_convolution(channels, size, 1, stride)});
      }
      layers.push_back({"bottleneck_1_" + suffix, width, square_convolution(channels, size, 1, 1)});
      layers.push_back(
          {"bottleneck_2_" + suffix, width, square_convolution(width, size, 3, stride)});
      size /= stride;
      layers.push_back(
          {"bottleneck_3_" + suffix, 4 * width, square_convolution(width, size, 1, 1)});
      channels = 4 * width;
    }
  }
  return layers;
}

}  // namespace spjit::bench

#pragma once

/// @file
/// A convolutional network in memory, with images in both layouts.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/convolution/conv_peer.hpp"
#include "bench/convolution/image_buffers.hpp"

namespace spjit::bench {

class ConvOperands {
 public:
  ConvOperands(std::vector<ConvLayer> layers, std::int64_t batch);

  [[nodiscard]] const BiasedConvolutions& network() const noexcept { return network_; }
  [[nodiscard]] std::int64_t batch() const noexcept { return nchw_.batch(); }
  [[nodiscard]] ImageBuffers& images(Layout layout) noexcept {
    return layout == Layout::tokens_major ? nhwc_ : nchw_;
  }
  [[nodiscard]] ConvProblem problem(std::size_t layer, Layout layout, int threads);

 private:
  BiasedConvolutions network_;
  std::vector<std::vector<float>> dense_;
  ImageBuffers nchw_;
  ImageBuffers nhwc_;
};

}  // namespace spjit::bench

#pragma once

/// @file
/// X and Y of all layers of a convolutional network, in one layout.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/convolution/network.hpp"
#include "bench/host/buffers.hpp"
#include "spjit/layout.hpp"

namespace spjit::bench {

/// Layers with a bias each. After it every layer has a ReLU.
struct BiasedConvolutions {
  explicit BiasedConvolutions(std::vector<ConvLayer> given);

  std::vector<ConvLayer> layers;
  std::vector<AlignedFloats> biases;
};

/// Of all layers.
[[nodiscard]] std::int64_t nnz_of(const std::vector<ConvLayer>& layers);

/// Sizes are those of images. Values of inputs do not depend on the layout.
class ImageBuffers : public ChainedBuffers {
 public:
  /// `layout`: row_major is NCHW, tokens_major NHWC.
  ImageBuffers(const std::vector<ConvLayer>& layers, Layout layout, std::int64_t batch);

  [[nodiscard]] Layout layout() const noexcept { return layout_; }
  [[nodiscard]] std::int64_t batch() const noexcept { return batch_; }

 private:
  Layout layout_;
  std::int64_t batch_;
};

/// Empty if a layer's output is, for a few pixels of the first and the last image, those at the
/// edges among them, what it should be of what it read: within so many times the rounding bound of
/// fp32. Else where it is not.
[[nodiscard]] std::string check_layer(const BiasedConvolutions& network, std::size_t layer,
                                      const ImageBuffers& buffers, double rounding);

}  // namespace spjit::bench

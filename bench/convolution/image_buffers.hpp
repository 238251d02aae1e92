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

/// A layer reads what the latest layer before it wrote that has as many channels and pixels as its
/// image; the first of a size reads an input, whose values do not depend on the layout.
class ImageBuffers {
 public:
  /// `layout`: row_major is NCHW, tokens_major NHWC.
  ImageBuffers(const std::vector<ConvLayer>& layers, Layout layout, std::int64_t batch);

  [[nodiscard]] Layout layout() const noexcept { return layout_; }
  [[nodiscard]] std::int64_t batch() const noexcept { return batch_; }
  [[nodiscard]] const float* input(std::size_t layer) const;
  [[nodiscard]] const float* output(std::size_t layer) const;
  [[nodiscard]] float* output(std::size_t layer);

  /// NaN into every output: what is not written shows.
  void spoil();

 private:
  Layout layout_;
  std::int64_t batch_;
  std::vector<AlignedFloats> buffers_;
  std::vector<std::size_t> inputs_;         ///< of buffers_, a layer each
  std::vector<std::size_t> outputs_;        ///< the same
  std::vector<std::int64_t> output_sizes_;  ///< floats
};

/// Empty if a layer's output is, for a few pixels of the first and the last image, those at the
/// edges among them, what it should be of what it read: within so many times the rounding bound of
/// fp32. Else where it is not.
[[nodiscard]] std::string check_layer(const BiasedConvolutions& network, std::size_t layer,
                                      const ImageBuffers& buffers, double rounding);

}  // namespace spjit::bench

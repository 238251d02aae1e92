#pragma once

/// @file
/// A convolutional network by every library: prepared, checked, then timed beside each other.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/convolution/case.hpp"
#include "bench/convolution/conv_peer.hpp"
#include "bench/convolution/image_buffers.hpp"
#include "bench/model/sequence.hpp"

namespace spjit::bench {

/// A network in memory, with images in both layouts.
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

struct ConvConditions {
  int threads = 1;
  /// Kernels are chosen to be called again and again, and one layer of each shape is. Else all
  /// layers run in sequence.
  bool hot = false;
};

/// Cases without network and sparsity, one a shape, in the order of the network. Missing peers are
/// left out. In a sequence spjit computes the layers that a library cannot compute, which have no
/// timing of that library, so that the others find the caches as they would. What is wrong has no
/// timing either.
[[nodiscard]] std::vector<ConvCase> measure_convolutions(
    const std::vector<std::unique_ptr<ConvPeer>>& peers, ConvOperands& operands,
    const ConvConditions& conditions, const ConvPeerSettings& settings,
    const SequenceOptions& timing);

/// The layers' numbers, shape by shape. In the order in which shapes come first.
[[nodiscard]] std::vector<std::vector<std::size_t>> group_by_convolution(
    const std::vector<ConvLayer>& layers);

}  // namespace spjit::bench

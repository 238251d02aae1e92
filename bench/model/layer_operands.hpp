#pragma once

/// @file
/// The layers of a network with operands of their own, row-major.

#include <cstddef>
#include <string>
#include <vector>

#include "bench/model/layer_buffers.hpp"
#include "bench/model/network.hpp"
#include "bench/side_by_side/peer.hpp"

namespace spjit::bench {

class LayerOperands {
 public:
  LayerOperands(std::vector<NetworkLayer> layers, std::int64_t n, bool with_zeros);

  [[nodiscard]] const std::vector<NetworkLayer>& layers() const noexcept { return layers_; }
  [[nodiscard]] std::int64_t n() const noexcept { return buffers_.shape().n; }
  [[nodiscard]] side_by_side::Problem problem(std::size_t layer, int threads);

  /// NaN into every output: what a library does not write shows.
  void spoil() { buffers_.spoil(); }
  /// Empty if a layer's output is, for a few tokens at both ends, the product of what it read
  /// within so many times the rounding bound of fp32; else where it is not.
  [[nodiscard]] std::string check(std::size_t layer, double rounding) const;

 private:
  std::vector<NetworkLayer> layers_;
  LayerBuffers buffers_;
  std::vector<std::vector<float>> dense_;
};

}  // namespace spjit::bench

#pragma once

/// @file
/// A network, n and a number of threads: every library runs all layers one after another, so that
/// each kernel is as cold as the others leave it.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/timing.hpp"
#include "bench/model/layer_buffers.hpp"
#include "bench/model/network.hpp"
#include "bench/model/sequence.hpp"
#include "bench/side_by_side/peer.hpp"

namespace spjit::bench {

/// The layers of a network with operands of their own, row-major.
class LayerOperands {
 public:
  LayerOperands(std::vector<NetworkLayer> layers, std::int64_t n, bool with_zeros);

  [[nodiscard]] std::size_t size() const noexcept { return layers_.size(); }
  [[nodiscard]] side_by_side::Problem problem(std::size_t layer, int threads);
  [[nodiscard]] std::int64_t nnz() const noexcept;

  /// NaN into every output: what a library does not write shows.
  void spoil() { buffers_.spoil(); }
  /// Empty if every layer's output is, for a few tokens at both ends, the product of what it read
  /// within so many times the rounding bound of fp32; else where it is not.
  [[nodiscard]] std::string check(double rounding) const;

 private:
  std::vector<NetworkLayer> layers_;
  LayerBuffers buffers_;
  std::vector<std::vector<float>> dense_;
};

/// What one library did with a network.
struct NetworkTiming {
  std::string library;
  TimingResult pass = {};              ///< all layers in sequence; no samples if `failed`
  std::vector<double> layers_us = {};  ///< in sequence, each layer's median
  TimingResult hot = {};               ///< the sum over layers of each one alone, again and again
  double prepare_ms = 0;
  std::vector<std::string> details = {};  ///< what it chose, a layer each
  std::string failed = {};                ///< why it is not timed; empty: it is
};

/// Missing peers are left out. With `hot`, layers are timed alone too.
[[nodiscard]] std::vector<NetworkTiming> measure_network(
    const std::vector<std::unique_ptr<side_by_side::Peer>>& peers, LayerOperands& operands,
    int threads, bool hot, const SequenceOptions& options);

}  // namespace spjit::bench

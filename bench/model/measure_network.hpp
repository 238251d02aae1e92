#pragma once

/// @file
/// A network, n and a number of threads: every library runs all layers one after another, so that
/// each kernel is as cold as the others leave it.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/timing.hpp"
#include "bench/host/buffers.hpp"
#include "bench/model/network.hpp"
#include "bench/side_by_side/peer.hpp"

namespace spjit::bench {

/// The layers of a network with operands of their own. A layer reads what the latest layer before
/// it wrote that has as many rows as it has columns; the first of a width reads an input.
class LayerOperands {
 public:
  LayerOperands(std::vector<NetworkLayer> layers, std::int64_t n, bool with_zeros);

  [[nodiscard]] std::size_t size() const noexcept { return layers_.size(); }
  [[nodiscard]] side_by_side::Problem problem(std::size_t layer, int threads);
  [[nodiscard]] const NetworkLayer& layer(std::size_t layer) const { return layers_[layer]; }
  [[nodiscard]] std::int64_t nnz() const noexcept;

  /// NaN into every output: what a library does not write shows.
  void spoil();
  /// Empty if every layer's output is, in a few columns at both ends, the product of what it read
  /// within the rounding bound of fp32; else where it is not.
  [[nodiscard]] std::string check(double rounding);

 private:
  std::int64_t n_;
  std::vector<NetworkLayer> layers_;
  std::vector<std::vector<float>> dense_;
  std::vector<AlignedFloats> buffers_;
  std::vector<std::size_t> inputs_;   ///< of buffers_, a layer each
  std::vector<std::size_t> outputs_;  ///< the same
};

struct NetworkTimingOptions {
  double budget_ms = 500;  ///< of all libraries together, in which rounds may begin
  int min_samples = 3;     ///< of each library, whatever the budget says: a pass is many layers
  int max_samples = 25;
  TimingClock clock = steady_timing_clock();
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
    int threads, bool hot, const NetworkTimingOptions& options);

}  // namespace spjit::bench

#pragma once

/// @file
/// A network on a GPU: all its layers in one CUDA graph, one after another, so that code and
/// weights of each are as cold as the others leave them.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/timing.hpp"
#include "bench/model/network.hpp"
#include "bench/side_by_side/cuda/device_side.hpp"
#include "bench/side_by_side/peer.hpp"

namespace spjit::bench {

/// "minilm-90": six blocks of four layers [384 x 384], one [1536 x 384] and one [384 x 1536];
/// "bert-90": twelve of twice that width; the number is the percentage of zeros. Positions are
/// drawn uniformly, values keep activations at a variance of 1. Nothing for another name.
[[nodiscard]] std::optional<Network> encoder_network(const std::string& name);

/// One library's results with a network.
struct GpuNetworkTiming {
  std::string library;
  TimingResult pass = {};                 ///< all layers in sequence; no samples if `failed`
  std::vector<double> hot_us = {};        ///< of each layer, alone again and again
  std::int64_t a_bytes = 0;               ///< of all layers, in the form that products read
  double prepare_ms = 0;                  ///< of all layers
  std::vector<std::string> details = {};  ///< what it chose, a layer each
  std::string failed = {};                ///< why it is not timed; empty: it is
};

struct GpuNetworkOptions {
  double budget_ms = 500;     ///< of passes, all libraries together
  double hot_budget_ms = 20;  ///< of one layer, all libraries together
  bool check_only = false;    ///< times nothing
};

/// Layers of which each reads what the one before it wrote, `[cols x n]` row-major, and three
/// buffers: the input, and two that take turns.
class GpuNetwork {
 public:
  /// Throws InvalidArgument for no layers, and a layer whose columns are not the rows of the one
  /// before it.
  GpuNetwork(std::vector<NetworkLayer> layers, std::int64_t n,
             std::shared_ptr<side_by_side::DeviceSide> side);

  [[nodiscard]] std::size_t size() const noexcept { return layers_.size(); }
  [[nodiscard]] std::int64_t nnz() const { return nnz_of(layers_); }
  /// Valid as long as the network.
  [[nodiscard]] const side_by_side::Problem& problem(std::size_t layer) const {
    return problems_[layer];
  }

  /// Each library's layers are prepared, its last output is checked, then passes and single layers
  /// are timed beside the others'. Peers that are missing or of no GPU are left out.
  [[nodiscard]] std::vector<GpuNetworkTiming> measure(
      const std::vector<std::unique_ptr<side_by_side::Peer>>& peers,
      const GpuNetworkOptions& options);

 private:
  using Works = std::vector<std::unique_ptr<side_by_side::DeviceWork>>;

  [[nodiscard]] const DeviceBuffer& b_of(std::size_t layer) const;
  [[nodiscard]] const DeviceBuffer& c_of(std::size_t layer) const;
  [[nodiscard]] Works prepare(side_by_side::CudaPeer& peer, GpuNetworkTiming& timing);
  void enqueue(const Works& works, std::size_t layer) const;
  /// Of what the last layer wrote; empty: it is right.
  [[nodiscard]] std::string check(double rounding) const;
  /// Graphs of those layers, one after another, a library each, beside each other.
  [[nodiscard]] std::vector<TimingResult> time(const std::vector<Works>& works,
                                               const std::vector<std::size_t>& sequence,
                                               double budget_ms) const;

  std::vector<NetworkLayer> layers_;
  std::int64_t n_;
  std::shared_ptr<side_by_side::DeviceSide> side_;
  std::vector<std::vector<float>> dense_;
  std::vector<float> input_;  ///< host, as large as the largest B
  std::vector<side_by_side::Problem> problems_;
  DeviceBuffer in_;
  std::vector<DeviceBuffer> turns_;
};

}  // namespace spjit::bench

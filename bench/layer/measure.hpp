#pragma once

/// @file
/// One comparison on one network: its ways are prepared, checked, then timed beside each other.

#include <memory>
#include <string>
#include <vector>

#include "bench/layer/case.hpp"
#include "bench/layer/prepared_way.hpp"
#include "bench/layer/way.hpp"
#include "bench/model/network.hpp"
#include "bench/model/sequence.hpp"
#include "spjit/target.hpp"

namespace spjit::bench {

/// A network in memory.
struct LoadedNetwork {
  std::string name;
  std::vector<NetworkLayer> layers;
};

struct LayerConditions {
  std::int64_t n = 0;  ///< tokens
  int threads = 1;
  /// Kernels are chosen to be called again and again, and one layer of each shape is. Else all
  /// layers run in sequence.
  bool hot = false;
};

struct LayerBenchSettings {
  Target target = {};
  SequenceOptions timing = {};
};

struct ComparisonResult {
  std::vector<LayerCase> cases;  ///< one a shape of layers, in the order of the network
  std::vector<WayFailure> failures;
};

/// Every result is compared with float64, and its bits with those of the first way that computes
/// the same. What is wrong or cannot be compiled is not timed; if that is the first way, none is.
[[nodiscard]] ComparisonResult measure_comparison(const LoadedNetwork& network,
                                                  const Comparison& comparison,
                                                  const LayerConditions& conditions,
                                                  const LayerBenchSettings& settings);

/// The layers' numbers, shape by shape. In the order in which shapes come first.
[[nodiscard]] std::vector<std::vector<std::size_t>> group_by_shape(
    const std::vector<NetworkLayer>& layers);

}  // namespace spjit::bench

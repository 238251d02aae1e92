#pragma once

/// @file
/// All layers of a workload in several ways: prepared, checked, then timed beside each other.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/lab/record.hpp"
#include "bench/lab/sequence.hpp"
#include "bench/side_by_side/peer.hpp"

namespace spjit::bench {

struct ReadyLayer {
  std::unique_ptr<side_by_side::Runnable> runnable;
  double prepare_ms = 0;
  std::optional<double> values_ms = {};
  std::string failed = {};  ///< why it has no time; empty: it is timed
};

/// A way with all its layers.
struct ReadyWay {
  std::string name;
  std::vector<ReadyLayer> layers = {};
  std::string failed = {};  ///< why no layer of it has a time

  [[nodiscard]] bool is_timed() const;
};

/// How a way is prepared and checked.
struct WayMaker {
  std::string name;
  std::function<std::unique_ptr<side_by_side::Runnable>(std::size_t layer)> prepare;
  /// Runs in place of a layer that prepare() refuses, so that the others find the caches as they
  /// would; empty: a way without all its layers fails.
  std::function<std::unique_ptr<side_by_side::Runnable>(std::size_t layer)> instead = {};
  std::function<void()> spoil;  ///< makes what is not written show
  /// Why a layer's result is wrong, after all have run; empty: it is right.
  std::function<std::string(std::size_t layer)> check;
};

/// Runs all layers once. What is wrong, or throws Error, has a reason and is not timed.
[[nodiscard]] ReadyWay prepare_way(const WayMaker& maker, std::size_t layers, int threads);

/// Layers that are one case.
struct LayerGroup {
  std::vector<std::size_t> layers = {};
  /// Of several shapes: hot each is timed alone, and choices and times of each are kept. Else all
  /// have one shape, and hot the first stands for them.
  bool is_whole_network = false;
};

/// Items of one key together, in the order in which keys come first.
template <class Items, class Key>
[[nodiscard]] std::vector<LayerGroup> group_by(const Items& items, const Key& key) {
  std::vector<LayerGroup> groups;
  for (std::size_t i = 0; i < items.size(); ++i) {
    auto same = groups.begin();
    while (same != groups.end() && key(items[same->layers.front()]) != key(items[i])) ++same;
    if (same == groups.end()) same = groups.insert(same, LayerGroup{});
    same->layers.push_back(i);
  }
  return groups;
}

/// Adds the timings to `cases`, a group each: all layers in sequence, or hot each alone.
void time_ways(const std::vector<ReadyWay>& ways, const std::vector<LayerGroup>& groups,
               const SequenceOptions& options, std::vector<Case>& cases);

}  // namespace spjit::bench

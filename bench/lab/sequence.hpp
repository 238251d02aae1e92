#pragma once

/// @file
/// Timing of layers that run one after another, so that each kernel is as cold as the others leave
/// it, and of each layer alone.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/timing.hpp"

namespace spjit::bench {

/// The layers of a network, computed in one way.
struct Sequence {
  std::string name;
  std::vector<std::function<void()>> layers = {};
  std::function<void()> end_turn = {};  ///< after each sample, untimed; may be empty
};

struct SequenceOptions {
  double budget_ms = 500;  ///< of all sequences together, in which rounds may begin
  int min_samples = 3;     ///< of each, whatever the budget says: a pass is many layers
  int max_samples = 25;
  double alone_warm_up_ms = 0.2;   ///< of a layer that is timed alone
  double alone_min_batch_us = 50;  ///< its sample is at least this long
  int alone_min_samples = 3;
  TimingClock clock = steady_timing_clock();
};

struct SequenceTiming {
  TimingResult pass = {};                           ///< all layers
  std::vector<std::vector<double>> layers_us = {};  ///< [layers][samples]
};

/// All layers in sequence, the ways interleaved. A pass that does not count comes before each that
/// does: what the others left in the caches is not the network's. In the order of `sequences`.
[[nodiscard]] std::vector<SequenceTiming> time_in_sequence(std::span<const Sequence> sequences,
                                                           const SequenceOptions& options);

/// Each layer again and again, the ways interleaved: [sequences][layers]. All have as many layers.
[[nodiscard]] std::vector<std::vector<TimingResult>> time_alone(std::span<const Sequence> sequences,
                                                                const SequenceOptions& options);

}  // namespace spjit::bench

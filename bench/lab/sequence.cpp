#include "bench/lab/sequence.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "base/call_timer.hpp"

namespace spjit::bench {
namespace {

/// A sequence while its passes are timed.
struct Passes {
  const Sequence* sequence = nullptr;
  std::vector<double> latest_us = {};               ///< of the latest pass, a layer each
  std::vector<std::vector<double>> layers_us = {};  ///< [layers][passes that count]

  /// A pass. Reading the clock once a layer is less than a thousandth of it.
  void run(const TimingClock& clock) {
    latest_us.resize(sequence->layers.size());
    auto before = clock();
    for (std::size_t i = 0; i < sequence->layers.size(); ++i) {
      sequence->layers[i]();
      const auto after = clock();
      latest_us[i] = std::chrono::duration<double, std::micro>(after - before).count();
      before = after;
    }
  }
  void keep_pass() {
    layers_us.resize(sequence->layers.size());
    for (std::size_t i = 0; i < layers_us.size(); ++i) layers_us[i].push_back(latest_us[i]);
  }
};

}  // namespace

std::vector<SequenceTiming> time_in_sequence(std::span<const Sequence> sequences,
                                             const SequenceOptions& options) {
  std::vector<Passes> all;
  all.reserve(sequences.size());
  std::vector<TimingCandidate> candidates;
  for (const Sequence& sequence : sequences) {
    Passes& passes = all.emplace_back(Passes{&sequence});
    const auto run = [&passes, &options] { passes.run(options.clock); };
    const auto end = [&passes] {
      passes.keep_pass();
      if (passes.sequence->end_turn) passes.sequence->end_turn();
    };
    candidates.push_back({sequence.name, run, end, run});
  }
  const CallTimer timer({}, {}, options.clock);
  const std::vector<TimingResult> results = measure_single_calls(
      candidates, timer, {options.min_samples, options.max_samples, options.budget_ms});
  std::vector<SequenceTiming> timings;
  timings.reserve(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    timings.push_back({results[i], std::move(all[i].layers_us)});
  }
  return timings;
}

std::vector<std::vector<TimingResult>> time_alone(std::span<const Sequence> sequences,
                                                  const SequenceOptions& options) {
  std::vector<std::vector<TimingResult>> timings(sequences.size());
  if (sequences.empty()) return timings;
  const std::size_t layers = sequences.front().layers.size();
  TimingOptions of_layer;
  of_layer.clock = options.clock;
  of_layer.budget_ms = options.budget_ms / static_cast<double>(std::max<std::size_t>(layers, 1));
  of_layer.warm_up_ms = options.alone_warm_up_ms;
  of_layer.min_batch_us = options.alone_min_batch_us;
  of_layer.min_samples = options.alone_min_samples;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    std::vector<TimingCandidate> candidates;
    for (const Sequence& sequence : sequences) {
      candidates.push_back({sequence.name, sequence.layers[layer], sequence.end_turn});
    }
    std::vector<TimingResult> results = measure_interleaved(candidates, of_layer);
    for (std::size_t i = 0; i < results.size(); ++i) timings[i].push_back(std::move(results[i]));
  }
  return timings;
}

}  // namespace spjit::bench

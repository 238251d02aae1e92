#include "bench/lab/ways.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "bench/side_by_side/waiting.hpp"
#include "spjit/error.hpp"

namespace spjit::bench {
namespace {

using Numbers = std::vector<std::size_t>;

ReadyLayer prepare_layer(const WayMaker& maker, std::size_t number) {
  ReadyLayer layer;
  try {
    const auto begin = std::chrono::steady_clock::now();
    layer.runnable = maker.prepare(number);
    layer.prepare_ms = ms_since(begin);
  } catch (const Error& error) {
    if (!maker.instead) throw;
    layer.failed = error.what();
    layer.runnable = maker.instead(number);
  }
  return layer;
}

/// The layers share the way's threads.
void end_turn(const ReadyWay& way) {
  const auto own = std::ranges::find(way.layers, std::string(), &ReadyLayer::failed);
  if (own != way.layers.end()) side_by_side::end_turn(*own->runnable);
}

void check_way(const WayMaker& maker, ReadyWay& way) {
  maker.spoil();
  for (const ReadyLayer& layer : way.layers) {
    layer.runnable->receive();
    layer.runnable->run();
    layer.runnable->publish();
  }
  for (std::size_t i = 0; i < way.layers.size(); ++i) {
    ReadyLayer& layer = way.layers[i];
    if (layer.failed.empty()) layer.failed = maker.check(i);
    if (layer.failed.empty() || maker.instead) continue;
    way.failed = layer.failed;
    return;
  }
}

Sequence sequence_of(const ReadyWay& way, const Numbers& numbers, int threads) {
  Sequence sequence{way.name};
  for (const std::size_t number : numbers) {
    sequence.layers.emplace_back(
        [runnable = way.layers[number].runnable.get()] { runnable->run(); });
  }
  if (threads > 1) sequence.end_turn = [&way] { end_turn(way); };
  return sequence;
}

/// Those that stand for a group where it is hot.
Numbers alone_of(const LayerGroup& group) {
  return group.is_whole_network ? group.layers : Numbers{group.layers.front()};
}

/// Layers one after another, each alone: times add up, and so do squares of what is uncertain.
TimingResult sum_of(const std::vector<TimingResult>& layers, double times) {
  TimingResult sum;
  double squares = 0;
  for (const TimingResult& layer : layers) {
    sum.median_us += times * layer.median_us;
    sum.min_us += times * layer.min_us;
    squares += std::pow(times * layer.noise * layer.median_us, 2);
    sum.samples = sum.samples == 0 ? layer.samples : std::min(sum.samples, layer.samples);
  }
  if (sum.median_us > 0) sum.noise = std::sqrt(squares) / sum.median_us;
  return sum;
}

/// What the layers of a group took together, sample by sample.
std::vector<double> sums_of(const SequenceTiming& timing, const LayerGroup& group) {
  std::vector<double> sums(timing.layers_us[group.layers.front()].size(), 0.0);
  for (const std::size_t layer : group.layers) {
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += timing.layers_us[layer][i];
  }
  return sums;
}

/// All but the time.
WayTiming untimed(const ReadyWay& way, const LayerGroup& group, bool hot) {
  WayTiming timing{way.name};
  timing.failed = way.failed;
  if (way.layers.empty() || !way.failed.empty()) return timing;
  timing.prepare_ms = 0;
  for (const std::size_t number : hot ? alone_of(group) : group.layers) {
    const ReadyLayer& layer = way.layers[number];
    if (timing.failed.empty()) timing.failed = layer.failed;
    if (!layer.failed.empty()) continue;
    *timing.prepare_ms += layer.prepare_ms;
    if (layer.values_ms) timing.values_ms = timing.values_ms.value_or(0) + *layer.values_ms;
    std::string chosen = layer.runnable->detail();
    const bool is_new = std::ranges::count(timing.chosen, chosen) == 0;
    if (group.is_whole_network || is_new) timing.chosen.push_back(std::move(chosen));
  }
  return timing;
}

/// One of the ways that are timed, by group.
using GroupTimings = std::vector<WayTiming*>;

void time_hot(const std::vector<Sequence>& sequences, const std::vector<LayerGroup>& groups,
              const SequenceOptions& options, const std::vector<GroupTimings>& timings) {
  const auto alone = time_alone(sequences, options);
  for (std::size_t way = 0; way < sequences.size(); ++way) {
    auto next = alone[way].begin();
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const auto count = std::ssize(alone_of(groups[i]));
      const double times =
          static_cast<double>(std::ssize(groups[i].layers)) / static_cast<double>(count);
      timings[way][i]->time = sum_of({next, next + count}, times);
      next += count;
    }
  }
}

void time_cold(const std::vector<Sequence>& sequences, const std::vector<LayerGroup>& groups,
               const SequenceOptions& options, const std::vector<GroupTimings>& timings) {
  const std::vector<SequenceTiming> passes = time_in_sequence(sequences, options);
  for (std::size_t way = 0; way < sequences.size(); ++way) {
    for (std::size_t i = 0; i < groups.size(); ++i) {
      WayTiming& timing = *timings[way][i];
      const std::vector<double> sums = sums_of(passes[way], groups[i]);
      timing.time = summarize_samples({}, sums);
      if (way > 0) timing.paired = paired_ratio(sums, sums_of(passes.front(), groups[i]));
      if (!groups[i].is_whole_network) continue;
      for (const auto& samples_us : passes[way].layers_us) {
        timing.layers_us.push_back(summarize_samples({}, samples_us).median_us);
      }
    }
  }
}

/// Layers of a group that a way cannot compute ran in its sequence, but have no time.
void forget_times_of_failed(std::vector<Case>& cases) {
  for (Case& one : cases) {
    for (WayTiming& timing : one.timings) {
      if (timing.failed.empty()) continue;
      timing.time = {};
      timing.paired = {};
      timing.layers_us = {};
    }
    if (one.timings.empty() || one.timings.front().failed.empty()) continue;
    for (WayTiming& timing : one.timings) timing.paired = {};
  }
}

}  // namespace

bool ReadyWay::is_timed() const {
  return failed.empty() &&
         std::ranges::any_of(layers, [](const ReadyLayer& layer) { return layer.failed.empty(); });
}

ReadyWay prepare_way(const WayMaker& maker, std::size_t layers, int threads) {
  ReadyWay way{maker.name};
  try {
    for (std::size_t i = 0; i < layers; ++i) way.layers.push_back(prepare_layer(maker, i));
    check_way(maker, way);
    if (threads > 1) end_turn(way);
  } catch (const Error& error) {
    way.failed = error.what();
  }
  return way;
}

void time_ways(const std::vector<ReadyWay>& ways, const std::vector<LayerGroup>& groups,
               const SequenceOptions& options, std::vector<Case>& cases) {
  if (cases.empty()) return;
  const bool hot = cases.front().hot;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (const ReadyWay& way : ways) cases[i].timings.push_back(untimed(way, groups[i], hot));
  }
  Numbers numbers;
  for (const LayerGroup& group : groups) {
    const Numbers some = hot ? alone_of(group) : group.layers;
    numbers.insert(numbers.end(), some.begin(), some.end());
  }
  if (!hot) std::ranges::sort(numbers);
  std::vector<Sequence> sequences;
  std::vector<GroupTimings> timings;
  for (std::size_t way = 0; way < ways.size(); ++way) {
    if (!ways[way].is_timed()) continue;
    sequences.push_back(sequence_of(ways[way], numbers, cases.front().threads));
    GroupTimings& own = timings.emplace_back();
    for (Case& one : cases) own.push_back(&one.timings[way]);
  }
  if (hot)
    time_hot(sequences, groups, options, timings);
  else
    time_cold(sequences, groups, options, timings);
  forget_times_of_failed(cases);
}

}  // namespace spjit::bench

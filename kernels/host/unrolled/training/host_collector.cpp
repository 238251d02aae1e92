#include "kernels/host/unrolled/training/host_collector.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/host/unrolled/host_choice.hpp"
#include "kernels/host/unrolled/host_tunable.hpp"
#include "kernels/host/unrolled/tile_space.hpp"
#include "reorder/row_grouping.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// Takes the time of a search, unless the sample's is as good: several loads tell more than one,
/// more samples of a load more than fewer, and of as many the lesser time does.
void take(HostSample& sample, const SearchTraceEntry& tile) {
  if (!tile.full || tile.full->outcome == TuningOutcome::failed) return;
  const TimingResult& timing = tile.full->timing;
  if (timing.samples == 0) return;
  const auto worth = [](bool confirmed, std::int64_t samples, double us) {
    return std::tuple(confirmed, samples, -us);
  };
  if (sample.samples > 0 && worth(tile.confirmed, timing.samples, timing.median_us) <=
                                worth(sample.confirmed, sample.samples, sample.us)) {
    return;
  }
  sample.us = timing.median_us;
  sample.noise = timing.noise;
  sample.samples = timing.samples;
  sample.confirmed = tile.confirmed;
}

/// Whether it was timed or failed.
bool is_settled(const SearchTraceEntry& tile) {
  return tile.full && tile.full->outcome != TuningOutcome::not_reached;
}

}  // namespace

HostSampleGroup collect_samples(const Problem& problem, const CollectOptions& options,
                                const std::shared_ptr<ThreadPool>& pool,
                                const TimeTiles& time_tiles) {
  const auto start = std::chrono::steady_clock::now();
  const CsrMatrix& matrix = *problem.a;
  CompileOptions compile = options.compile;
  compile.policy.search = SearchMode::exhaustive;
  compile.policy.hot = true;
  const HostDeviceInfo limits = host_device_info(compile.target);
  const DeviceInfo device = limits;
  const Cancellation cancel;
  const HostTile heuristic = host_choice_by_rules({problem, compile, device, cancel}).tile;
  HostSampleGroup group;
  group.limits = limits;
  group.work = workload_of(problem, compile.resources.threads);
  bool timed = false;
  std::set<std::size_t> settled;
  for (int i = 0; i < options.searches; ++i) {
    HostTunable space(
        {problem, compile, limits, heuristic},
        [&](std::span<const HostTuningCandidate> candidates, const TuningOptions& tuning) {
          return time_host_kernels(candidates, tuning, {problem.ldb(), pool, true});
        });
    const SearchTrace trace = time_tiles(space);
    timed = timed || trace.timed;
    // Each search has the same tiles in the same order.
    group.samples.resize(trace.entries.size());
    for (std::size_t tile = 0; tile < trace.entries.size(); ++tile) {
      take(group.samples[tile], trace.entries[tile]);
      group.samples[tile].candidate.tile = space.tile(tile);
      if (is_settled(trace.entries[tile])) settled.insert(tile);
    }
  }
  if (!timed) throw Error("no tile could be timed");
  // A tile that the budget did not suffice for says nothing; one that failed does.
  std::vector<HostSample> samples;
  samples.reserve(settled.size());
  for (const std::size_t tile : settled) samples.push_back(group.samples[tile]);
  group.samples = std::move(samples);
  // As a ranking sees the candidates: with estimated groupings.
  const EstimatedGrouping estimated(matrix);
  std::map<std::int64_t, GroupingStatistics> groupings;
  for (HostSample& sample : group.samples) {
    const HostTile tile = sample.candidate.tile;
    const auto [grouping, is_new] = groupings.try_emplace(tile.m1);
    if (is_new) grouping->second = estimated.statistics(tile.m1);
    sample.candidate = examine_host_tile(problem, tile, compile, limits, grouping->second);
  }
  group.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return group;
}

}  // namespace spjit

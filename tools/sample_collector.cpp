#include "sample_collector.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

#include "compiler/host_search.hpp"
#include "compiler/pipeline.hpp"
#include "compiler/tile_space.hpp"
#include "rankmodel/host_prior.hpp"
#include "reorder/row_grouping.hpp"
#include "spjit/error.hpp"

namespace spjit::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// The candidate as a ranking sees it: its grouping estimated.
TileCandidate examine(const CsrMatrix& matrix, const HostTile& tile, const CompileOptions& options,
                      const HostLimits& limits) {
  return examine_host_tile(matrix, tile, options, limits, estimate_statistics(matrix, tile.m1));
}

/// More samples say more; of as many the lesser time does.
void take(HostSample& sample, const std::optional<RaceResult>& result) {
  if (!result || result->outcome == RaceOutcome::failed || result->timing.samples == 0) return;
  const TimingResult& timing = result->timing;
  const bool better = timing.samples > sample.samples ||
                      (timing.samples == sample.samples && timing.median_us < sample.us);
  if (!better) return;
  sample.us = timing.median_us;
  sample.noise = timing.noise;
  sample.samples = timing.samples;
}

}  // namespace

HostSampleGroup collect_samples(const CsrMatrix& matrix, const CompileOptions& options,
                                const std::shared_ptr<ThreadPool>& pool) {
  const auto start = Clock::now();
  CompileOptions search_options = options;
  search_options.search = SearchMode::exhaustive;
  const HostLimits limits = host_limits(options.target.isa());
  const HostTile heuristic = plan_choice(matrix, search_options, limits).tile;
  const auto search = [&] {
    return search_host_tile(
        {matrix, search_options, limits, heuristic}, search_stages(search_options, matrix.nnz()),
        [&](std::span<const HostContestant> contestants, const RaceOptions& race) {
          return race_host_kernels(contestants, race, options.ldb, pool);
        });
  };
  const HostSearch first = search();
  const HostSearch second = search();
  if (!first.timed && !second.timed) throw Error("no tile could be timed");
  HostSampleGroup group;
  group.limits = limits;
  group.work = host_work(matrix, options.n, options.threads);
  for (std::size_t i = 0; i < first.tiles.size(); ++i) {
    HostSample sample;
    sample.candidate = examine(matrix, first.tiles[i].tile, search_options, limits);
    take(sample, first.tiles[i].full);
    take(sample, second.tiles[i].full);  // the same tiles in the same order
    group.samples.push_back(std::move(sample));
  }
  group.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return group;
}

}  // namespace spjit::cli

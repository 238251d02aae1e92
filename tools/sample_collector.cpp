#include "sample_collector.hpp"

#include <algorithm>
#include <chrono>
#include <tuple>

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

/// So many of the best are timed again, each loaded several times: what is best, and which tiles
/// are as good, should not be the luck of one load among hundreds.
constexpr std::size_t k_confirmed = 24;

/// Takes the time of a search, unless the sample's is as good: several loads tell more than one,
/// more samples of a load more than fewer, and of as many the lesser time does.
void take(HostSample& sample, const SearchedHostTile& tile) {
  if (!tile.full || tile.full->outcome == RaceOutcome::failed) return;
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

}  // namespace

HostSampleGroup collect_samples(const CsrMatrix& matrix, const CollectOptions& options,
                                const std::shared_ptr<ThreadPool>& pool) {
  const auto start = Clock::now();
  CompileOptions compile = options.compile;
  compile.search = SearchMode::exhaustive;
  const HostLimits limits = host_limits(compile.target.isa());
  const HostTile heuristic = plan_choice(matrix, compile, limits).tile;
  HostSearchStages stages = search_stages(compile, matrix.nnz());
  stages.confirmed = k_confirmed;
  HostSampleGroup group;
  group.limits = limits;
  group.work = host_work(matrix, compile.n, compile.threads);
  bool timed = false;
  for (int i = 0; i < options.searches; ++i) {
    const HostSearch search =
        search_host_tile({matrix, compile, limits, heuristic}, stages,
                         [&](std::span<const HostContestant> contestants, const RaceOptions& race) {
                           return race_host_kernels(contestants, race, compile.ldb, pool);
                         });
    timed = timed || search.timed;
    // Each search has the same tiles in the same order.
    group.samples.resize(search.tiles.size());
    for (std::size_t tile = 0; tile < search.tiles.size(); ++tile) {
      take(group.samples[tile], search.tiles[tile]);
      group.samples[tile].candidate.tile = search.tiles[tile].tile;
    }
  }
  if (!timed) throw Error("no tile could be timed");
  for (HostSample& sample : group.samples) {
    sample.candidate = examine(matrix, sample.candidate.tile, compile, limits);
  }
  group.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return group;
}

}  // namespace spjit::cli

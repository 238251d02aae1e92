#include "sample_collector.hpp"

#include <algorithm>
#include <chrono>

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

}  // namespace

HostSampleGroup collect_samples(const CsrMatrix& matrix, const CompileOptions& options,
                                const std::shared_ptr<ThreadPool>& pool) {
  const auto start = Clock::now();
  CompileOptions search_options = options;
  search_options.search = SearchMode::exhaustive;
  const HostLimits limits = host_limits(options.target.isa());
  const HostTile heuristic = plan_choice(matrix, search_options, limits).tile;
  const HostSearch search = search_host_tile(
      {matrix, search_options, limits, heuristic}, search_stages(search_options, matrix.nnz()),
      [&](std::span<const HostContestant> contestants, const RaceOptions& race) {
        return race_host_kernels(contestants, race, options.ldb, pool);
      });
  if (!search.timed) throw Error("no tile could be timed");
  HostSampleGroup group;
  group.limits = limits;
  group.work = host_work(matrix, options.n, options.threads);
  for (const SearchedHostTile& tile : search.tiles) {
    HostSample sample;
    sample.candidate = examine(matrix, tile.tile, search_options, limits);
    if (tile.full && tile.full->outcome != RaceOutcome::failed) {
      sample.us = tile.full->timing.median_us;
      sample.noise = tile.full->timing.noise;
      sample.samples = tile.full->timing.samples;
    }
    group.samples.push_back(std::move(sample));
  }
  group.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return group;
}

}  // namespace spjit::cli

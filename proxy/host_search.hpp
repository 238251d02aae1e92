#pragma once

/// @file
/// The search for a host tile: rank what the rules leave, time proxies, time the best in full.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/unrolled_host/host_proxy.hpp"
#include "kernels/unrolled_host/shipped_models.hpp"
#include "kernels/unrolled_host/tile_candidate.hpp"
#include "plan/compile_context.hpp"
#include "proxy/measure.hpp"
#include "reorder/row_groupings.hpp"
#include "runtime/host/host_device_info.hpp"
#include "spjit/compiler.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// Which stages a search has. search_stages() makes it from a mode.
struct HostSearchStages {
  std::size_t contenders = 0;  ///< best-ranked tiles that are timed at all; 0: every survivor
  bool proxies = true;         ///< proxies first, then only `finalists` in full; else all in full
  /// Best ones by proxy time that are timed in full; the heuristic's choice is always one more. 0:
  /// all, so that both times are known.
  std::size_t finalists = 3;
  /// Where whole kernels of more than a few tiles were timed, so many of the best are timed again,
  /// loaded several times. At least 1.
  std::size_t confirmed = 3;
  /// Code and weights that are raced at once; more waits for the next heat, which the best so far
  /// runs in too.
  std::size_t batch_bytes = std::size_t{512} << 20;
  HostReductions reductions;
  HostProxyLimits limits;
};

/// Below so many nonzeros x columns of B, emitting and timing whole kernels is as cheap as their
/// proxies: where the measured search times cross (docs/search.md).
inline constexpr double k_proxies_pay_nnz_n = 10e6;

/// The stages of `ranked`, `proxy` or `exhaustive`. Proxies only where they pay.
[[nodiscard]] HostSearchStages search_stages(const CompileOptions& options, std::int64_t nnz);

/// What is known about a tile when the search is over.
struct SearchedHostTile {
  HostTile tile;
  GroupingStatistics grouping;        ///< of the rows at its m1
  double score = 0;                   ///< of the ranking, larger is better
  std::optional<TuningResult> proxy;  ///< none: no proxy was to be timed
  std::optional<TuningResult> full;   ///< none: not to be timed in full
  /// `full` is of several loads the one with the middle time: more to be trusted than one load's.
  bool confirmed = false;
};

/// What the search did.
struct HostSearch {
  TileSpace space;  ///< groupings as EstimatedGrouping gives them
  std::string ranked_by;
  std::vector<SearchedHostTile> tiles;           ///< the survivors, best-ranked first
  std::size_t chosen = 0;                        ///< index into tiles
  std::shared_ptr<const HostArtifact> artifact;  ///< of the chosen one
  bool proxies = false;                          ///< were timed
  bool timed = false;   ///< the choice is by times; else time ran out before anything was timed
  double rank_ms = 0;   ///< groupings, tile space, scores
  double proxy_ms = 0;  ///< making and timing proxies
  double full_ms = 0;   ///< making and timing whole kernels
};

/// What a tile is searched for. Refers to all of it.
struct HostSearchInput {
  const CsrMatrix& matrix;
  const CompileOptions& options;
  const HostDeviceInfo& limits;
  const HostTile& heuristic;             ///< the choice of instant mode
  const HostRankModel* model = nullptr;  ///< what ranks; null: the prior
  CompileContext watch = {};
};

/// Searches within `options.search_budget_ms`, in which waiting for the turn to time does not
/// count. Throws what `watch.cancel` throws soon after it is reached. The heuristic's choice is
/// always among what is timed in full, so the result is not worse than instant mode's by more than
/// timing noise. Tiles over the code budget have failed. Where nothing could be timed the
/// heuristic's choice is taken, even if it is over that budget.
[[nodiscard]] HostSearch search_host_tile(const HostSearchInput& input,
                                          const HostSearchStages& stages,
                                          const TimeHostKernels& race);

}  // namespace spjit

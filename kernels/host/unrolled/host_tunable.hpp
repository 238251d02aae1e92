#pragma once

/// @file
/// The unrolled host kernels as a search sees them: ranked tiles, their proxies and kernels.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/cancel.hpp"
#include "kernels/host/unrolled/host_program.hpp"
#include "kernels/host/unrolled/host_proxy.hpp"
#include "kernels/host/unrolled/host_ranking.hpp"
#include "kernels/host/unrolled/host_timer.hpp"
#include "kernels/host/unrolled/tile_space.hpp"
#include "kernels/tuning/tunable_space.hpp"
#include "plan/kernel_plan.hpp"
#include "reorder/row_groupings.hpp"
#include "runtime/host/host_device_info.hpp"
#include "spjit/options.hpp"
#include "spjit/problem.hpp"

namespace spjit {

/// Below so many nonzeros x columns of B, emitting and timing whole kernels is as cheap as their
/// proxies: where the measured search times cross (docs/results/search.md).
inline constexpr double k_proxies_pay_nnz_n = 10e6;

[[nodiscard]] constexpr bool host_proxies_pay(std::int64_t nnz, std::int64_t n) noexcept {
  return static_cast<double>(nnz) * static_cast<double>(n) >= k_proxies_pay_nnz_n;
}

/// The subject of a search. Refers to all of it.
struct HostSearchInput {
  const Problem& problem;
  const CompileOptions& options;
  const HostDeviceInfo& limits;
  const HostTile& heuristic;               ///< the choice of instant mode
  const LoadedRankModel* model = nullptr;  ///< what ranks; null: the prior
  Cancellation cancel = {};
};

/// How candidates are made and timed; the defaults are what is shipped.
struct HostTuning {
  HostReductions reductions;
  HostProxyLimits limits;
  /// Code and weights that are timed at once.
  std::size_t batch_bytes = std::size_t{512} << 20;
  int builders = 0;  ///< threads; 0: `parallel_compiles` of the options, at most one a CPU
};

/// The code of tiles that share_code().
struct HostBuild : TunableBuild {
  std::shared_ptr<const HostArtifact> artifact;  ///< null after a failure other than its size
  HostTile tile;                                 ///< that it was made for
};

/// The heuristic's choice is candidate 0, then come those that the rules leave, best-ranked first.
/// Candidates that are not timed have an estimated grouping: making them takes longer than ranking.
class HostTunable final : public TunableSpace {
 public:
  /// Enumerates and ranks; throws what `input.cancel` throws. `timer` times what is built.
  HostTunable(const HostSearchInput& input, TimeHostKernels timer, const HostTuning& tuning = {});

  [[nodiscard]] std::string ranked_by() const override;
  [[nodiscard]] std::vector<SearchCandidate> candidates() const override;
  [[nodiscard]] TuningTraits traits() const override;
  [[nodiscard]] bool share_build(std::size_t left, std::size_t right,
                                 Fidelity fidelity) const override;
  [[nodiscard]] std::shared_ptr<const TunableBuild> build(std::span<const std::size_t> candidates,
                                                          Fidelity fidelity,
                                                          const Cancellation& cancel) override;
  [[nodiscard]] std::vector<TuningResult> time(std::span<const TuningJob> jobs,
                                               const TuningOptions& options) override;

  /// All tiles, those that the rules dropped included; groupings as EstimatedGrouping gives them.
  [[nodiscard]] const TileSpace& space() const noexcept { return space_; }
  [[nodiscard]] const HostTile& tile(std::size_t candidate) const {
    return ranked_[candidate].candidate.tile;
  }
  /// Grouping of the rows at the candidate's m1; not an estimate.
  [[nodiscard]] const GroupingStatistics& grouping(std::size_t candidate) {
    return groupings_.statistics(tile(candidate).m1);
  }
  /// The candidate's kernel: of `build`, or where that is null made now, even if it is over the
  /// code budget. Throws as make_unrolled_artifact() does.
  [[nodiscard]] HostArtifact artifact(std::size_t candidate, const TunableBuild* build);

 private:
  struct PlanEntry {
    std::mutex mutex;
    std::optional<KernelPlan> plan;
  };

  void rank();
  [[nodiscard]] const KernelPlan& plan(std::int64_t m1, const Cancellation& cancel);
  [[nodiscard]] HostArtifact make(const HostTile& tile, Fidelity fidelity,
                                  const Cancellation& cancel);
  [[nodiscard]] std::int64_t window(const HostTile& tile) const;

  const HostSearchInput input_;
  TimeHostKernels timer_;
  HostTuning tuning_;
  RowGroupings groupings_;
  TileSpace space_;
  std::vector<RankedHostTile> ranked_;
  std::mutex mutex_;  ///< of the map
  std::map<std::int64_t, PlanEntry> plans_;
};

}  // namespace spjit

#pragma once

/// @file
/// One stage of a search: candidates are built and timed, batch after batch.

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/tuning/search_trace.hpp"
#include "kernels/tuning/tunable_space.hpp"
#include "plan/compile_context.hpp"
#include "proxy/search_clock.hpp"
#include "proxy/stage_builds.hpp"

namespace spjit {

/// Data that the stages of one search share. Refers to the space and the context.
struct SearchRun {
  SearchRun(TunableSpace& of, const CompileContext& watched, SearchClock started)
      : space(of), traits(of.traits()), context(watched), clock(started) {}

  TunableSpace& space;
  const TuningTraits traits;
  const CompileContext& context;
  SearchClock clock;
  SearchTrace trace;
};

/// A stage and its part of the budget.
struct StageLimits {
  Fidelity fidelity = Fidelity::full;
  std::size_t loads = 1;  ///< of each candidate
  double begin = 0;       ///< share of the budget that is spent when it begins at the latest
  double end = 1;         ///< share of the budget that is spent when it ends at the latest
};

class SearchStage {
 public:
  /// Stages of a search run one after the other; each sees the results of those before.
  SearchStage(SearchRun& run, const StageLimits& limits, std::vector<std::size_t> candidates);

  /// Every candidate gets its result: one that fails its reason, one that the time does not suffice
  /// for `not_reached`. Throws what the context throws.
  void run();

  /// The fastest; none if nothing was timed.
  [[nodiscard]] std::optional<TuningJob> best() const;

 private:
  [[nodiscard]] std::optional<TuningResult>& result(std::size_t candidate);
  [[nodiscard]] bool fill_batch();
  /// Builds `group`, and what follows up to `bytes`, unless that was done; null where time is up.
  [[nodiscard]] std::shared_ptr<const TunableBuild> build_of(std::size_t group, std::size_t bytes);
  void enter(std::size_t candidate, const std::shared_ptr<const TunableBuild>& build);
  void time_batch();
  [[nodiscard]] std::vector<TuningResult> time_jobs();
  [[nodiscard]] std::vector<TuningResult> middle_loads(const std::vector<TuningResult>& results);
  void report_building(std::size_t made) const;
  void report_timing(const TuningProgress& progress) const;

  SearchRun& run_;
  StageLimits limits_;
  StageBuilds builds_;
  std::vector<std::pair<std::size_t, std::size_t>> order_;  ///< candidates and their groups
  std::size_t next_ = 0;                                    ///< in the order
  std::size_t left_out_ = 0;     ///< candidates that failed to build or whose time was up
  std::size_t earlier_ = 0;      ///< candidates timed in batches before this one
  std::vector<TuningJob> jobs_;  ///< of this batch; the best of those before is the first
  std::size_t carried_ = 0;      ///< 1 if there is a best of those before
};

}  // namespace spjit

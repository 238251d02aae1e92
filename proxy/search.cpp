#include "proxy/search.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/timing.hpp"
#include "proxy/search_clock.hpp"
#include "proxy/search_stage.hpp"

namespace spjit {
namespace {

using Clock = SearchClock::Clock;
using Candidates = std::vector<std::size_t>;
using ResultOf = std::optional<TuningResult> SearchTraceEntry::*;

/// What stand-ins may use of the budget; the rest is for the finalists.
constexpr double k_stand_in_share = 0.7;
/// What whole kernels may use of the budget before the best of them are timed again.
constexpr double k_once_share = 0.9;

/// The best `count` of the candidates by one of their times, best first, and the favourite.
Candidates best_of(const SearchRun& run, Candidates candidates, std::size_t count, ResultOf time) {
  const auto result = [&](std::size_t candidate) -> const TuningResult& {
    return *(run.trace.entries[candidate].*time);
  };
  std::erase_if(candidates, [&](std::size_t candidate) {
    return result(candidate).outcome == TuningOutcome::failed ||
           result(candidate).timing.samples == 0;
  });
  // Those that were dropped early have uncertain medians; they only fill up.
  std::ranges::stable_sort(candidates, [&](std::size_t left, std::size_t right) {
    const TuningResult& a = result(left);
    const TuningResult& b = result(right);
    return std::pair(a.outcome, a.timing.median_us) < std::pair(b.outcome, b.timing.median_us);
  });
  if (candidates.size() > count) candidates.resize(count);
  const std::optional<std::size_t> favourite = run.traits.favourite;
  if (favourite && std::ranges::find(candidates, *favourite) == candidates.end()) {
    candidates.push_back(*favourite);
  }
  return candidates;
}

class Search {
 public:
  Search(TunableSpace& space, const SearchSettings& settings, const CompileContext& context)
      : stages_(settings.stages),
        run_(space, context, SearchClock(settings.begin, settings.budget_ms)) {
    run_.trace.mode = settings.mode;
    run_.trace.ranked_by = space.ranked_by();
    run_.trace.budget_ms = settings.budget_ms;
    for (SearchCandidate& candidate : space.candidates()) {
      run_.trace.entries.push_back(
          {std::move(candidate.tile), candidate.m1, candidate.n1, candidate.score, {}, {}});
    }
    run_.trace.rank_ms = ms_since(settings.begin);
  }

  SearchOutcome run() {
    Candidates candidates(std::min(run_.trace.entries.size(), stages_.top_k));
    std::iota(candidates.begin(), candidates.end(), 0);
    if (!candidates.empty() && !run_.traits.nothing_to_time) {
      if (wants_stand_ins(candidates.size())) candidates = time_stand_ins(candidates);
      if (!candidates.empty()) time_in_full(candidates);
    }
    return {std::move(run_.trace), std::move(build_)};
  }

 private:
  /// Not where all would be finalists, unless their times serve where there are none in full.
  [[nodiscard]] bool wants_stand_ins(std::size_t top_k) const {
    return stages_.stand_ins &&
           (run_.traits.stand_ins_decide || stages_.finalists == k_every_candidate ||
            top_k > stages_.finalists + 1);
  }

  /// The finalists, best first.
  Candidates time_stand_ins(const Candidates& candidates) {
    const auto begin = Clock::now();
    const bool alone =
        stages_.finalists == 0 && (run_.traits.stand_ins_decide || !run_.traits.favourite);
    SearchStage stage(run_, {Fidelity::stand_in, 1, 0, alone ? 1 : k_stand_in_share}, candidates);
    stage.run();
    run_.trace.proxies = true;
    run_.trace.proxy_ms = ms_since(begin);
    if (run_.traits.stand_ins_decide) take(stage);
    if (alone) return {};
    if (stages_.finalists == k_every_candidate) return candidates;
    return best_of(run_, candidates, stages_.finalists, &SearchTraceEntry::proxy);
  }

  /// Whole kernels of the candidates; where they are many once each, then the best few again.
  void time_in_full(const Candidates& candidates) {
    const auto begin = Clock::now();
    const std::size_t loads = run_.traits.loads;
    const bool again = loads > 1 && candidates.size() > run_.traits.few;
    SearchStage stage(run_,
                      {Fidelity::full, again ? 1 : loads, run_.trace.proxies ? k_stand_in_share : 0,
                       again ? k_once_share : 1},
                      candidates);
    stage.run();
    if (!take(stage)) {
      leave_out_failed(candidates);
    } else if (again) {
      confirm(candidates);
    }
    run_.trace.full_ms = ms_since(begin);
  }

  void confirm(const Candidates& candidates) {
    const std::vector<SearchTraceEntry> once = run_.trace.entries;
    SearchStage stage(run_, {Fidelity::full, run_.traits.loads, k_once_share, 1},
                      best_of(run_, candidates, stages_.confirmed, &SearchTraceEntry::full));
    stage.run();
    if (!take(stage)) run_.trace.entries = once;
  }

  /// Takes what a stage found; false if it timed nothing.
  bool take(const SearchStage& stage) {
    const std::optional<TuningJob> best = stage.best();
    if (!best) return false;
    run_.trace.chosen = best->candidate;
    run_.trace.timed = true;
    if (best->fidelity == Fidelity::full) build_ = best->build;
    return true;
  }

  /// Of finalists none of which was timed in full, best first: the best that may yet do.
  void leave_out_failed(const Candidates& finalists) {
    if (!run_.trace.timed) return;
    const auto other = std::ranges::find_if(finalists, [&](std::size_t finalist) {
      return run_.trace.entries[finalist].full->outcome != TuningOutcome::failed;
    });
    if (other != finalists.end()) run_.trace.chosen = *other;
  }

  const SearchStages& stages_;
  SearchRun run_;
  std::shared_ptr<const TunableBuild> build_;
};

}  // namespace

SearchStages search_stages(SearchMode mode, int top_k, bool stand_ins_pay) {
  SearchStages stages;
  if (mode == SearchMode::ranked) stages.top_k = static_cast<std::size_t>(top_k);
  stages.stand_ins = mode != SearchMode::exhaustive && stand_ins_pay;
  return stages;
}

SearchSettings settings_of(const SearchPolicy& policy, const TunableSpace& space,
                           std::chrono::steady_clock::time_point begin) {
  SearchSettings settings;
  settings.mode = policy.search;
  settings.budget_ms = policy.search_budget_ms;
  settings.stages = search_stages(policy.search, policy.top_k, space.traits().stand_ins_pay);
  settings.begin = begin;
  return settings;
}

SearchOutcome search(TunableSpace& space, const SearchSettings& settings,
                     const CompileContext& context) {
  return Search(space, settings, context).run();
}

}  // namespace spjit

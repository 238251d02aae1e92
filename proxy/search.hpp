#pragma once

/// @file
/// The search for the fastest candidate of a family: ranked candidates, stand-ins of the best of
/// them timed, finalists timed in full, the best of many timed again. One for every family and
/// device; what differs is what a TunableSpace says.

#include <chrono>
#include <cstddef>
#include <limits>

#include "kernels/tuning/search_trace.hpp"
#include "kernels/tuning/tunable_space.hpp"
#include "plan/compile_context.hpp"
#include "spjit/options.hpp"

namespace spjit {

inline constexpr std::size_t k_every_candidate = std::numeric_limits<std::size_t>::max();

/// Which stages a search has. search_stages() makes it from a mode.
struct SearchStages {
  std::size_t top_k = k_every_candidate;  ///< best-ranked candidates that are timed at all
  bool stand_ins = true;  ///< first, then only `finalists` in full; else all top_k in full
  /// Best ones by stand-in that are timed in full; the favourite is always one more. All: both
  /// times of every contender are known. 0: the stand-ins alone decide, where the family lets them.
  std::size_t finalists = 3;
  /// Where more than a few whole kernels were timed once, so many of the best are timed again,
  /// loaded several times. At least 1. Only for families that load several times.
  std::size_t confirmed = 3;
};

/// The stages of `ranked`, `proxy` or `exhaustive`. `top_k`: those of `ranked`.
[[nodiscard]] SearchStages search_stages(SearchMode mode, int top_k, bool stand_ins_pay);

struct SearchSettings {
  SearchMode mode = SearchMode::ranked;  ///< for the trace
  double budget_ms = 60'000;
  SearchStages stages;
  /// When the budget began: what was done since then to rank counts.
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
};

/// The settings of a policy for a space.
[[nodiscard]] SearchSettings settings_of(const SearchPolicy& policy, const TunableSpace& space,
                                         std::chrono::steady_clock::time_point begin);

/// Searches within the budget, in which waiting for the turn to time does not count. The chosen
/// candidate is the fastest in full; where none was timed in full and stand-ins decide the fastest
/// of those, without such as failed in full; else the first (then `timed` is false). The same times
/// lead to the same choice whatever the number of threads that build. Reports to
/// `context.progress`; throws what `context.cancel` throws soon after it is reached.
[[nodiscard]] SearchOutcome search(TunableSpace& space, const SearchSettings& settings,
                                   const CompileContext& context);

}  // namespace spjit

#pragma once

/// @file
/// The goals of the host target, held against what was measured.

#include <span>
#include <string>
#include <vector>

#include "bench/host/case.hpp"

namespace spjit::bench {

/// One goal and its figure.
struct GoalResult {
  enum class State { met, not_met, no_data };

  std::string goal;     ///< what is wanted, with its number
  double measured = 0;  ///< the worst case it covers, or the mean it names
  double wanted = 0;
  std::string unit;   ///< "% of peak", "x", "ms"
  std::string where;  ///< the case `measured` comes from, or how many cases
  State state = State::no_data;
};

[[nodiscard]] std::string to_string(GoalResult::State state);

/// Every goal, in the order of the requirement. A goal that no case covers is `no_data`.
[[nodiscard]] std::vector<GoalResult> evaluate_goals(std::span<const CaseResult> cases);

}  // namespace spjit::bench

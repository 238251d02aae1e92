#pragma once

/// @file
/// Races of host kernels that nobody runs: times by a formula.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "compiler/measure.hpp"

namespace spjit::testing_support {

[[nodiscard]] inline RaceResult finished_in(double us) {
  RaceResult result;
  result.timing = summarize_samples("made up", {us});
  result.outcome = RaceOutcome::finished;
  return result;
}

[[nodiscard]] inline RaceResult failed_because(const std::string& reason) {
  RaceResult result;
  result.outcome = RaceOutcome::failed;
  result.failure = reason;
  return result;
}

/// Gives each contestant the result that `result_of` makes up for it.
[[nodiscard]] inline RaceHostKernels race_by(
    std::function<RaceResult(const HostContestant&)> result_of) {
  return [result_of = std::move(result_of)](std::span<const HostContestant> contestants,
                                            const RaceOptions&) {
    std::vector<RaceResult> results;
    for (const HostContestant& contestant : contestants) results.push_back(result_of(contestant));
    return results;
  };
}

/// A clock by which less code is faster.
[[nodiscard]] inline RaceResult time_by_size(const HostContestant& contestant) {
  return finished_in(static_cast<double>(contestant.artifact->text.size()));
}

}  // namespace spjit::testing_support

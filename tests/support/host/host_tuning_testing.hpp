#pragma once

/// @file
/// Races of host kernels that nobody runs: times by a formula.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/host/unrolled/host_timer.hpp"

namespace spjit::testing_support {

[[nodiscard]] inline TuningResult finished_in(double us) {
  TuningResult result;
  result.timing = summarize_samples("made up", {us});
  result.outcome = TuningOutcome::finished;
  return result;
}

[[nodiscard]] inline TuningResult failed_because(const std::string& reason) {
  TuningResult result;
  result.outcome = TuningOutcome::failed;
  result.failure = reason;
  return result;
}

/// Gives each candidate the result that `result_of` makes up for it.
[[nodiscard]] inline TimeHostKernels timer_by(
    std::function<TuningResult(const HostTuningCandidate&)> result_of) {
  return [result_of = std::move(result_of)](std::span<const HostTuningCandidate> candidates,
                                            const TuningOptions&) {
    std::vector<TuningResult> results;
    for (const HostTuningCandidate& candidate : candidates) results.push_back(result_of(candidate));
    return results;
  };
}

/// A clock by which less code is faster.
[[nodiscard]] inline TuningResult time_by_size(const HostTuningCandidate& candidate) {
  return finished_in(static_cast<double>(candidate.artifact->text.size()));
}

}  // namespace spjit::testing_support

#pragma once

/// @file
/// A search's trace by hand.

#include <optional>
#include <string>

#include "kernels/tuning/search_trace.hpp"

namespace spjit::testing_support {

/// `samples` equal ones.
[[nodiscard]] inline TuningResult timed_at(double us,
                                           TuningOutcome outcome = TuningOutcome::finished,
                                           int samples = 12) {
  TuningResult result;
  result.outcome = outcome;
  result.timing.median_us = us;
  result.timing.min_us = us;
  result.timing.samples = samples;
  return result;
}

[[nodiscard]] inline TuningResult failed_with(const std::string& reason) {
  TuningResult result;
  result.outcome = TuningOutcome::failed;
  result.failure = reason;
  return result;
}

/// Six tiles: A and B have both times, and B, the faster one, is chosen; C was dropped and has B's
/// cell; D failed; E has only a proxy's time; F was not to be timed.
[[nodiscard]] inline SearchTrace hand_made_trace() {
  SearchTrace trace;
  trace.mode = SearchMode::proxy;
  trace.ranked_by = "prior";
  trace.timed = true;
  trace.proxies = true;
  trace.budget_ms = 5000;
  trace.rank_ms = 1;
  trace.proxy_ms = 20;
  trace.full_ms = 300;
  trace.entries = {{"A", 28, 16, -10, timed_at(12), timed_at(10)},
                   {"B", 14, 32, -11, timed_at(9), timed_at(8)},
                   {"C", 14, 32, -12, timed_at(20, TuningOutcome::dropped, 1), {}},
                   {"D <&>", 7, 64, -13, failed_with("no luck"), {}},
                   {"E", 28, 32, -14, timed_at(16), {}},
                   {"F", 28, 16, -15, {}, {}}};
  trace.chosen = 1;
  return trace;
}

}  // namespace spjit::testing_support

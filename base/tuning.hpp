#pragma once

/// @file
/// Timing many candidates to find the fastest, without spending long on those that are not. What
/// runs, and how it is timed, is the caller's business.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/timing.hpp"

namespace spjit {

/// One runner.
struct TuningEntry {
  std::string name;
  /// Runs it `calls` times back to back and returns how long that took. [us] By a monotonic clock
  /// on the host, between events on a GPU. What it throws takes it out of the tuning.
  std::function<double(std::int64_t calls)> run_us;
  double part = 1;  ///< of a run that a call does; results are times of whole runs
  /// Calls until the caches have settled; over 0 where code is so long that they take more than
  /// one. So many go before the first sample, and before the second try of a sample that is much
  /// worse than an earlier one.
  int settling_calls = 0;
};

/// How the tuning stands, after each sample.
struct TuningProgress {
  std::size_t settled = 0;  ///< dropped or failed
  std::size_t entries = 0;
  std::string_view best;  ///< name; empty before the first sample
  double best_us = 0;     ///< least median so far
  double ms_left = 0;     ///< until the tuning ends at the latest
};

struct TuningOptions {
  double min_sample_us = 200;  ///< a sample repeats its runner for about this long at least
  int min_rounds = 3;          ///< before the tuning ends for any reason but the budget; >= 1
  int max_rounds = 40;         ///< >= min_rounds
  double relative_error_goal = 0.005;  ///< ends once every median left is as certain
  bool drops = true;                   ///< false: all run to the end
  double call_limit_ms = 1000;         ///< a runner whose first call takes longer has failed
  double budget_ms = 60'000;           ///< for all of it; the round under way is not finished
  TimingClock clock = steady_timing_clock();
  std::function<void(const TuningProgress&)> progress =
      {};                            ///< may be empty; may throw to stop all
  std::function<void()> check = {};  ///< called before each batch of calls; may throw to stop all
};

/// For calls that are cold: each is a sample, since what goes before it takes longer.
[[nodiscard]] TuningOptions paced(TuningOptions options, bool hot);

enum class TuningOutcome : std::uint8_t {
  finished,     ///< was there to the end
  dropped,      ///< clearly worse than the best
  failed,       ///< threw, or ran past its limit
  not_reached,  ///< the budget was spent before its first sample
};

[[nodiscard]] std::string_view to_string(TuningOutcome outcome);

struct TuningResult {
  TimingResult timing;  ///< samples = 0: there is none
  TuningOutcome outcome = TuningOutcome::not_reached;
  std::string failure;  ///< why it failed
};

/// How much worse than the best median a runner's best sample must be to be dropped after so many
/// rounds. The warm-up is round 0. It is 1 / (rounds + 1) for the first two, then 0.02 + 0.5 /
/// rounds^2. A minimum because neighbours on the machine only ever add time: of two samples both
/// would have to be hit. In the end 2 % are left, about what timing on a shared machine can tell
/// apart.
[[nodiscard]] double drop_margin(int rounds);

/// Runs all entries in rounds, one sample each. Every other round is in reverse order, so that
/// drift hits all alike. Before each sample the runner is called once untimed, so that its code and
/// data are where its predecessor's were (warm policy). After each round, and after warming up, who
/// is clearly worse is dropped; so put likely winners first. Ends when one is left or every median
/// is as certain as the goal (but not before `min_rounds`), at `max_rounds`, or when the budget is
/// spent. Results in the order of the entries. Throws InvalidArgument for an entry without a
/// function, no clock, or options that contradict each other; what `progress` and `check` throw
/// goes through.
[[nodiscard]] std::vector<TuningResult> run_tuning(std::span<const TuningEntry> entries,
                                                   const TuningOptions& options = {});

/// The entry with the least median of those that finished; where there is none and the budget cut
/// nothing off, of those with any sample; none if nothing was timed.
[[nodiscard]] std::ptrdiff_t winner_of(std::span<const TuningResult> results);

inline constexpr std::ptrdiff_t k_no_winner = -1;

}  // namespace spjit

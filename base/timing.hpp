#pragma once

/// @file
/// Timing of short functions against each other. What they do is the caller's business, and so is
/// the clock, so that the policy is tested on made-up time.

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace spjit {

/// The most calls of one sample: a clock that stands still must not make batches endless.
inline constexpr std::int64_t k_max_batch = std::int64_t{1} << 21;

/// One of the things to compare.
struct TimingCandidate {
  std::string name;
  std::function<void()> run;
  /// Called after each of its samples, untimed; may be empty. For libraries whose threads still run
  /// when a call is over: they would take time from the next candidate.
  std::function<void()> after_sample = {};
  /// Called before each of its samples, untimed; may be empty.
  std::function<void()> before_sample = {};
};

/// Time since some fixed moment.
using TimingClock = std::function<std::chrono::nanoseconds()>;

/// std::chrono::steady_clock.
[[nodiscard]] TimingClock steady_timing_clock();

struct TimingOptions {
  double warm_up_ms = 5;      ///< untimed running of each candidate before the first sample
  double min_batch_us = 200;  ///< a sample repeats its candidate for about this long at least, so
                              ///< that reading the clock and one interrupt are small beside it
  int min_samples = 7;        ///< of each candidate, whatever the budget says; >= 1
  int max_samples = 200;      ///< of each candidate; >= min_samples
  double budget_ms = 500;     ///< for all candidates together, warm-up included
  double relative_error_goal = 0.003;  ///< stop once every median's relative standard error is less
  TimingClock clock = steady_timing_clock();
};

/// Times of one call. Samples are means over batches of calls, one call warm before each batch.
struct TimingResult {
  std::string name;
  double median_us = 0;
  double min_us = 0;
  double mean_us = 0;
  double noise = 0;  ///< 1.4826 median |t - median| / median: a relative standard deviation
                     ///< that outliers do not move
  double relative_error = 0;  ///< standard error of the median / median
  int samples = 0;
  std::int64_t batch = 0;  ///< calls a sample
};

/// Times the candidates in rounds: each round takes one sample of each, every other round in
/// reverse order, so that a machine that gets slower or busy does so for all. Ends when every
/// median is as certain as the goal, at `max_samples`, or when the next round would exceed the
/// budget, but not before `min_samples`. Results in the order of the candidates. Throws
/// InvalidArgument for a candidate without a function, no clock, or options that contradict each
/// other; what a candidate throws goes through.
[[nodiscard]] std::vector<TimingResult> measure_interleaved(
    std::span<const TimingCandidate> candidates, const TimingOptions& options = {});

/// The summary of a list of samples. [us a call; not empty]
[[nodiscard]] TimingResult summarize_samples(std::string name, std::vector<double> samples_us);

/// Throws InvalidArgument unless 1 <= min_samples <= max_samples.
void check_sample_counts(int min_samples, int max_samples);

/// Milliseconds from `start` to now.
[[nodiscard]] inline double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace spjit

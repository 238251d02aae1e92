#pragma once

/// @file
/// How long a call takes, warm or cold.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/cache_flush.hpp"
#include "base/function_ref.hpp"
#include "base/timing.hpp"

namespace spjit {

/// Rows of floats.
struct InputRows {
  const float* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;  ///< floats from row to row
};

/// Calls follow one another, or each finds the caches as a network leaves them: full of what other
/// layers read, but for its input, which the layer before has just written.
class CallTimer {
 public:
  CallTimer() = default;
  /// `disturb` is called before each call, untimed; then `input` is read.
  CallTimer(std::function<void()> disturb, const InputRows& input,
            TimingClock clock = steady_timing_clock())
      : disturb_(std::move(disturb)), input_(input), clock_(std::move(clock)) {}
  /// The caches are emptied before each call.
  CallTimer(std::shared_ptr<CacheFlush> flush, const InputRows& input)
      : CallTimer([flush = std::move(flush)] { flush->flush(); }, input) {}

  /// Time of so many calls in all. [us]
  [[nodiscard]] double us(std::int64_t calls, FunctionRef<void()> call) const;

  [[nodiscard]] const TimingClock& clock() const noexcept { return clock_; }

 private:
  void read_input() const;

  std::function<void()> disturb_;  ///< empty: calls follow one another
  InputRows input_;
  TimingClock clock_ = steady_timing_clock();
};

/// How often calls are timed each of which takes an untimed preparation as long as itself or
/// longer.
struct SingleCallOptions {
  int min_samples = 7;     ///< of each candidate, whatever the budget says; >= 1
  int max_samples = 50;    ///< of each candidate; >= min_samples
  double budget_ms = 500;  ///< no round begins later
};

/// Times the candidates in rounds, each by one call a round, which a timer that disturbs makes a
/// cold one. Each round begins with another candidate, so that none is always the last. Results in
/// the order of the candidates. Throws InvalidArgument for options that contradict each other; what
/// a candidate throws goes through.
[[nodiscard]] std::vector<TimingResult> measure_single_calls(
    std::span<const TimingCandidate> candidates, const CallTimer& timer,
    const SingleCallOptions& options = {});

}  // namespace spjit

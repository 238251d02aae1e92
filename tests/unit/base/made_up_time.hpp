#pragma once

/// @file
/// Time for tests of timing.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/timing.hpp"
#include "base/tuning.hpp"

namespace spjit::testing_support {

/// Microseconds of call number i, from 0.
using CallUs = std::function<double(std::int64_t)>;

inline CallUs constant(double us) {
  return [us](std::int64_t) { return us; };
}

/// Time that passes only when entries of a tuning or timing candidates run. Every batch is logged.
class MadeUpTime {
 public:
  TuningEntry entry(const std::string& name, CallUs call_us, double part = 1) {
    const auto run = [this, name, call_us = std::move(call_us),
                      next = std::int64_t{0}](std::int64_t calls) mutable {
      log_.push_back(name);
      double us = 0;
      for (std::int64_t i = 0; i < calls; ++i) us += call_us(next++);
      now_us_ += us;
      return us;
    };
    return {name, run, part};
  }

  TimingCandidate candidate(const std::string& name, CallUs call_us) {
    return {name, [this, name, call_us = std::move(call_us), next = std::int64_t{0}]() mutable {
              log_.push_back(name);
              now_us_ += call_us(next++);
            }};
  }

  /// Of exactly so many rounds.
  [[nodiscard]] TuningOptions tuning_options(int rounds) {
    TuningOptions options;
    options.min_rounds = options.max_rounds = rounds;
    options.clock = [this] { return now(); };
    return options;
  }

  [[nodiscard]] TimingOptions timing_options() {
    TimingOptions options;
    options.warm_up_ms = 0;
    options.clock = [this] { return now(); };
    return options;
  }

  [[nodiscard]] double now_us() const { return now_us_; }
  [[nodiscard]] const std::vector<std::string>& log() const { return log_; }

 private:
  [[nodiscard]] std::chrono::nanoseconds now() const {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(now_us_ * 1e3));
  }

  double now_us_ = 0;
  std::vector<std::string> log_;
};

}  // namespace spjit::testing_support

#pragma once

/// @file
/// Runs a way to search in a process of its own, killed at its limit.

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "bench/search_cost/cost_row.hpp"

namespace spjit::bench {

/// Progress that the process of a way reports. It lies in memory that both share. Thread-safe, but
/// for say().
class CostReporter {
 public:
  using Clock = std::chrono::steady_clock;

  /// The way begins now.
  void start() { start_ = Clock::now(); }
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }
  void set_candidates(std::size_t count) { candidates_ = static_cast<std::int64_t>(count); }
  /// Compiling what `candidates` stands for begins.
  void begin() { begun_s_ = seconds(); }
  /// One more is done.
  void done(bool failed);
  /// A note in place of the one before; cut at 255 bytes.
  void say(std::string_view note);

  [[nodiscard]] CostProgress progress() const;

 private:
  Clock::time_point start_ = Clock::now();
  std::atomic<std::int64_t> candidates_{0};
  std::atomic<std::int64_t> compiled_{0};
  std::atomic<std::int64_t> failed_{0};
  std::atomic<double> begun_s_{0};
  std::atomic<double> latest_s_{0};
  std::array<char, 256> note_{};
};

/// Runs in the child: makes the kernel from the matrix. What it throws is the row's failure.
using CostWork = std::function<WorkReport(CostReporter&)>;

/// Once, and up to `settings.repeats` times while all runs together stay below a sixth of the
/// limit. The calling process must have one thread.
[[nodiscard]] CostRow measure_way(const CostRowHead& head, const CostSettings& settings,
                                  const CostWork& work);

}  // namespace spjit::bench

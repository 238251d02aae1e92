#pragma once

/// @file
/// When the shares of a search's budget are spent.

#include <chrono>

namespace spjit {

class SearchClock {
 public:
  using Clock = std::chrono::steady_clock;

  SearchClock(Clock::time_point begin, double budget_ms) : begin_(begin), budget_ms_(budget_ms) {}

  [[nodiscard]] Clock::time_point begin() const { return begin_; }
  /// When this share of the budget is spent.
  [[nodiscard]] Clock::time_point after(double share) const {
    return begin_ + paused_ +
           std::chrono::duration_cast<Clock::duration>(
               std::chrono::duration<double, std::milli>(budget_ms_ * share));
  }
  /// Until then; 0 if it is past.
  [[nodiscard]] double ms_until(double share) const {
    const std::chrono::duration<double, std::milli> left = after(share) - Clock::now();
    return left.count() > 0 ? left.count() : 0;
  }
  /// Time that does not count: others were timing.
  void add_pause(Clock::duration time) { paused_ += time; }

 private:
  Clock::time_point begin_;
  double budget_ms_;
  Clock::duration paused_{};
};

}  // namespace spjit

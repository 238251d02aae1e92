#pragma once

/// @file
/// When to leave a server alone that does not answer.

#include <chrono>
#include <mutex>

#include "base/fork_safe_mutex.hpp"

namespace spjit {

struct CircuitBreakerOptions {
  int failures = 3;  ///< in a row, after which it opens
  std::chrono::milliseconds rest{60'000};
};

/// Open, it lets nothing through; after the rest it lets one try, which closes or opens it again.
/// Thread-safe.
class CircuitBreaker {
 public:
  using Clock = std::chrono::steady_clock;

  explicit CircuitBreaker(CircuitBreakerOptions options = {}) : options_(options) {}

  /// Whether to try now. Who is told to has to report one of the three below.
  [[nodiscard]] bool lets_try(Clock::time_point now = Clock::now()) {
    const std::lock_guard lock(mutex_);
    if (failures_ < options_.failures) return true;
    if (is_trying_ || now < open_until_) return false;
    is_trying_ = true;
    return true;
  }

  void succeeded() {
    const std::lock_guard lock(mutex_);
    failures_ = 0;
    is_trying_ = false;
  }

  /// Whether it has opened by this.
  bool failed(Clock::time_point now = Clock::now()) {
    const std::lock_guard lock(mutex_);
    const bool was_closed = failures_ < options_.failures;
    // Those that were under way when it opened do not make the rest longer.
    if (!was_closed && !is_trying_) return false;
    if (was_closed) ++failures_;
    is_trying_ = false;
    if (failures_ < options_.failures) return false;
    open_until_ = now + options_.rest;
    return true;
  }

  /// The caller gave up by itself: that says nothing of the server.
  void gave_up() {
    const std::lock_guard lock(mutex_);
    is_trying_ = false;
  }

  /// Whether it lets nothing through now.
  [[nodiscard]] bool is_open(Clock::time_point now = Clock::now()) {
    const std::lock_guard lock(mutex_);
    return failures_ >= options_.failures && now < open_until_;
  }

  [[nodiscard]] std::chrono::milliseconds rest() const noexcept { return options_.rest; }

 private:
  ForkSafeMutex mutex_;
  CircuitBreakerOptions options_;
  int failures_ = 0;
  bool is_trying_ = false;
  Clock::time_point open_until_;
};

}  // namespace spjit

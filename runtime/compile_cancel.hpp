#pragma once

/// @file
/// When a compilation is given up. Whatever may take long asks.

#include <chrono>
#include <optional>
#include <stop_token>

#include "spjit/error.hpp"

namespace spjit {

/// A compilation ends when either of the two says so. Both empty: it runs to its end.
struct CompileCancel {
  std::optional<std::chrono::steady_clock::time_point> deadline;
  std::stop_token stop;

  [[nodiscard]] bool reached() const noexcept {
    return stop.stop_requested() || (deadline && std::chrono::steady_clock::now() >= *deadline);
  }

  /// Throws Cancelled or DeadlineExceeded if it is reached. Tens of nanoseconds.
  void check() const {
    if (stop.stop_requested()) {
      throw Cancelled("the compilation was given up: it was told to stop; nothing of it was kept");
    }
    if (reached()) {
      throw DeadlineExceeded(
          "the compilation was given up: its deadline had passed; nothing of it was kept; allow "
          "more time");
    }
  }
};

/// Thrown by what compiles for a limit of its own: not the source's fault.
class CompileCancelled : public CompileFailed {
 public:
  using CompileFailed::CompileFailed;
};

}  // namespace spjit

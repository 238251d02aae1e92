#pragma once

/// @file
/// When a compilation is given up.

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
};

/// A compilation that was given up: not the source's fault.
class CompileCancelled : public CompileFailed {
 public:
  using CompileFailed::CompileFailed;
};

}  // namespace spjit

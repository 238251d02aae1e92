#pragma once

/// @file
/// Time that passed.

#include <chrono>

namespace spjit {

/// Milliseconds from `start` to now.
[[nodiscard]] inline double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace spjit

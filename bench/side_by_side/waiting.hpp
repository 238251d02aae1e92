#pragma once

/// @file
/// Waiting without sleeping.

#include <chrono>

namespace spjit::side_by_side {

/// Until `duration` is over. The core stays awake and at its clock frequency, which a sleep would
/// not leave to the next sample.
inline void wait_awake(std::chrono::nanoseconds duration) {
  const auto end = std::chrono::steady_clock::now() + duration;
  while (std::chrono::steady_clock::now() < end) __builtin_ia32_pause();
}

}  // namespace spjit::side_by_side

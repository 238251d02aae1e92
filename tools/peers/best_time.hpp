#pragma once

/// @file
/// The best time of several runs, for measurements of this machine's limits.

#include <fmt/format.h>
#include <immintrin.h>

#include <algorithm>
#include <chrono>

#include "spjit/error.hpp"
#include "spjit/target.hpp"

namespace spjit {

// Keep the compiler from knowing what a register holds: equal values would be computed once, and
// what nobody reads not at all.
inline __attribute__((always_inline)) void hide(__m128& vector) { asm volatile("" : "+x"(vector)); }
inline __attribute__((always_inline, target("avx2"))) void hide(__m256& vector) {
  asm volatile("" : "+x"(vector));
}
inline __attribute__((always_inline, target("avx512f"))) void hide(__m512& vector) {
  asm volatile("" : "+v"(vector));
}

/// Throws NotSupported if this CPU lacks `isa`.
inline void require_measurable(HostIsa isa) {
  if (Target(isa).runs_here()) return;
  throw NotSupported(
      fmt::format("the peak of {} cannot be measured: this CPU does not have it; measure {}",
                  to_string(isa), Target().name()));
}

/// Least time of a call, of at least a few and of as many as fit `duration_ms`. [s]
template <class Function>
[[nodiscard]] double best_time(const Function& function, double duration_ms) {
  using Clock = std::chrono::steady_clock;
  constexpr int k_min_samples = 5;
  double best = 1e30;
  const auto end = Clock::now() + std::chrono::duration<double, std::milli>(duration_ms);
  for (int sample = 0; sample < k_min_samples || Clock::now() < end; ++sample) {
    const auto begin = Clock::now();
    function();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

}  // namespace spjit

#include "tools/peers/machine_peak.hpp"

#include <fmt/format.h>
#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "spjit/error.hpp"

namespace spjit {
namespace {

using Clock = std::chrono::steady_clock;

// Independent sums: twice the 8 to 10 that two FMAs a cycle of 4 or 5 cycles each need, as far as
// there are registers for them and the factors.
constexpr std::size_t k_sums_avx512 = 24;
constexpr std::size_t k_sums_avx2 = 12;
constexpr std::size_t k_sums_generic = 12;

// About 20 us: long against reading the clock, short against a time slice.
constexpr std::int64_t k_fma_steps = 4000;
constexpr int k_min_samples = 5;

// Keep the compiler from knowing what a register holds: equal sums would be computed once, and sums
// nobody reads not at all.
inline __attribute__((always_inline)) void hide(__m128& vector) { asm volatile("" : "+x"(vector)); }
inline __attribute__((always_inline, target("avx2"))) void hide(__m256& vector) {
  asm volatile("" : "+x"(vector));
}
inline __attribute__((always_inline, target("avx512f"))) void hide(__m512& vector) {
  asm volatile("" : "+v"(vector));
}

__attribute__((target("avx512f"))) void stream_avx512() {
  __m512 factor = _mm512_set1_ps(1.0F);
  __m512 other = _mm512_set1_ps(0.5F);
  hide(factor);
  hide(other);
  __m512 sums[k_sums_avx512];
#pragma GCC unroll 24
  for (__m512& sum : sums) {
    sum = _mm512_setzero_ps();
    hide(sum);
  }
  for (std::int64_t step = 0; step < k_fma_steps; ++step) {
#pragma GCC unroll 24
    for (__m512& sum : sums) {
      sum = _mm512_fmadd_ps(factor, other, sum);
    }
  }
#pragma GCC unroll 24
  for (__m512& sum : sums) hide(sum);
}

__attribute__((target("avx2,fma"))) void stream_avx2() {
  __m256 factor = _mm256_set1_ps(1.0F);
  __m256 other = _mm256_set1_ps(0.5F);
  hide(factor);
  hide(other);
  __m256 sums[k_sums_avx2];
#pragma GCC unroll 12
  for (__m256& sum : sums) {
    sum = _mm256_setzero_ps();
    hide(sum);
  }
  for (std::int64_t step = 0; step < k_fma_steps; ++step) {
#pragma GCC unroll 12
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(factor, other, sum);
  }
#pragma GCC unroll 12
  for (__m256& sum : sums) hide(sum);
}

void stream_generic() {
  __m128 factor = _mm_set1_ps(1.0F);
  __m128 other = _mm_set1_ps(0.5F);
  __m128 sums[k_sums_generic];
#pragma GCC unroll 12
  for (__m128& sum : sums) {
    sum = _mm_setzero_ps();
    hide(sum);
  }
  for (std::int64_t step = 0; step < k_fma_steps; ++step) {
#pragma GCC unroll 12
    for (__m128& sum : sums) {
      hide(factor);  // else the product would be computed once, outside of the loop
      sum = _mm_add_ps(sum, _mm_mul_ps(factor, other));
    }
  }
#pragma GCC unroll 12
  for (__m128& sum : sums) hide(sum);
}

/// Least time of a call. [s]
template <class Function>
double best_time(const Function& function, double duration_ms) {
  double best = 1e30;
  const auto end = Clock::now() + std::chrono::duration<double, std::milli>(duration_ms);
  for (int sample = 0; sample < k_min_samples || Clock::now() < end; ++sample) {
    const auto begin = Clock::now();
    function();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

struct FmaStream {
  void (*run)();
  std::size_t sums;
  std::size_t lanes;
};

FmaStream fma_stream_of(HostIsa isa) {
  if (isa == HostIsa::avx512) return {stream_avx512, k_sums_avx512, 16};
  if (isa == HostIsa::avx2) return {stream_avx2, k_sums_avx2, 8};
  return {stream_generic, k_sums_generic, 4};
}

}  // namespace

double measure_fma_peak_gflops(HostIsa isa, double duration_ms) {
  if (!Target(isa).runs_here()) {
    throw NotSupported(
        fmt::format("the peak of {} cannot be measured: this CPU does not have it; measure {}",
                    to_string(isa), Target().name()));
  }
  const FmaStream stream = fma_stream_of(isa);
  const double operations =
      2.0 * static_cast<double>(stream.sums * stream.lanes) * static_cast<double>(k_fma_steps);
  return operations / best_time(stream.run, duration_ms) * 1e-9;
}

}  // namespace spjit

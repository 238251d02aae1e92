#include "tools/peers/machine_peak.hpp"

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "tools/peers/best_time.hpp"

namespace spjit {
namespace {

// Independent sums: twice the 8 to 10 that two FMAs a cycle of 4 or 5 cycles each need, as far as
// there are registers for them and the factors.
constexpr std::size_t k_sums_avx512 = 24;
constexpr std::size_t k_sums_avx2 = 12;
constexpr std::size_t k_sums_generic = 12;

// About 20 us: long against reading the clock, short against a time slice.
constexpr std::int64_t k_fma_steps = 4000;

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
  require_measurable(isa);
  const FmaStream stream = fma_stream_of(isa);
  const double operations =
      2.0 * static_cast<double>(stream.sums * stream.lanes) * static_cast<double>(k_fma_steps);
  return operations / best_time(stream.run, duration_ms) * 1e-9;
}

}  // namespace spjit

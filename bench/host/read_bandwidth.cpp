#include "bench/host/read_bandwidth.hpp"

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>

#include "tools/peers/best_time.hpp"

namespace spjit::bench {
namespace {

__attribute__((target("avx512f"))) void read_avx512(const float* data, std::int64_t floats) {
  for (std::int64_t i = 0; i < floats; i += 64) {
#pragma GCC unroll 4
    for (std::int64_t j = 0; j < 64; j += 16) {
      __m512 loaded = _mm512_load_ps(data + i + j);
      hide(loaded);
    }
  }
}

__attribute__((target("avx2"))) void read_avx2(const float* data, std::int64_t floats) {
  for (std::int64_t i = 0; i < floats; i += 64) {
#pragma GCC unroll 8
    for (std::int64_t j = 0; j < 64; j += 8) {
      __m256 loaded = _mm256_load_ps(data + i + j);
      hide(loaded);
    }
  }
}

void read_generic(const float* data, std::int64_t floats) {
  for (std::int64_t i = 0; i < floats; i += 64) {
#pragma GCC unroll 16
    for (std::int64_t j = 0; j < 64; j += 4) {
      __m128 loaded = _mm_load_ps(data + i + j);
      hide(loaded);
    }
  }
}

}  // namespace

double measure_read_bandwidth(HostIsa isa, std::int64_t working_set_bytes, double duration_ms) {
  require_measurable(isa);
  constexpr std::int64_t k_page = 4096;
  const std::int64_t bytes = (std::max(working_set_bytes, k_page) + k_page - 1) / k_page * k_page;
  struct Release {
    void operator()(float* data) const { ::operator delete[](data, std::align_val_t(k_page)); }
  };
  const std::int64_t floats = bytes / std::int64_t{sizeof(float)};
  const std::unique_ptr<float[], Release> data(static_cast<float*>(
      ::operator new[](static_cast<std::size_t>(bytes), std::align_val_t(k_page))));
  std::fill_n(data.get(), floats, 1.0F);
  const auto read = isa == HostIsa::avx512 ? read_avx512
                    : isa == HostIsa::avx2 ? read_avx2
                                           : read_generic;
  // Small working sets are read several times a sample: the clock takes some 20 ns to read.
  const std::int64_t passes = std::max<std::int64_t>(1, (std::int64_t{1} << 20) / bytes);
  const double seconds = best_time(
      [&] {
        for (std::int64_t pass = 0; pass < passes; ++pass) read(data.get(), floats);
      },
      duration_ms);
  return static_cast<double>(bytes * passes) / seconds * 1e-9;
}

}  // namespace spjit::bench

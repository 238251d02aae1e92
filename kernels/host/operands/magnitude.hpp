#pragma once

/// @file
/// A look at the values of B, for kernels that multiply zeros as well: whether the bits are those
/// of a product without them (kernels/dense_bits.hpp).

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "kernels/host/operands/simd.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// Least and greatest magnitude of values that were seen, as bits of floats without signs.
struct Magnitude {
  std::uint32_t least = std::numeric_limits<std::uint32_t>::max();  ///< other than zero
  std::uint32_t most = 0;
};

/// Whether values that were seen are finite and zero or `least_b` at least.
[[nodiscard]] bool takes(const Magnitude& seen, float least_b) noexcept;

/// Looks at a row-major B `[rows x columns]`, `ldb` floats between its rows. Precondition: `isa` is
/// avx512 or avx2, this CPU has it, and `columns` are at most one of its vectors.
[[nodiscard]] Magnitude look_at(HostIsa isa, const float* b, std::int64_t ldb, std::int64_t rows,
                                std::int64_t columns);

/// Magnitudes of vectors that are added.
class Avx512Magnitudes {
 public:
  SPJIT_AVX512_INLINE Avx512Magnitudes()
      : least_(_mm512_set1_epi32(-1)), most_(_mm512_setzero_si512()) {}
  SPJIT_AVX512_INLINE void add(__m512 values) {
    const __m512i bits =
        _mm512_and_si512(_mm512_castps_si512(values), _mm512_set1_epi32(0x7FFFFFFF));
    // Less one, so that zero is the largest.
    least_ = _mm512_min_epu32(least_, _mm512_sub_epi32(bits, _mm512_set1_epi32(1)));
    most_ = _mm512_max_epu32(most_, bits);
  }
  SPJIT_AVX512_INLINE void add(__m256 values) { add(_mm512_zextps256_ps512(values)); }
  SPJIT_AVX512_INLINE Magnitude range() const {
    const std::uint32_t least = _mm512_reduce_min_epu32(least_);
    const std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
    return {least == none ? none : least + 1, _mm512_reduce_max_epu32(most_)};
  }

 private:
  __m512i least_;
  __m512i most_;
};

/// Magnitudes of vectors that are added.
class Avx2Magnitudes {
 public:
  SPJIT_AVX2_INLINE Avx2Magnitudes()
      : least_(_mm256_set1_epi32(-1)), most_(_mm256_setzero_si256()) {}
  SPJIT_AVX2_INLINE void add(__m256 values) {
    const __m256i bits =
        _mm256_and_si256(_mm256_castps_si256(values), _mm256_set1_epi32(0x7FFFFFFF));
    // Less one, so that zero is the largest.
    least_ = _mm256_min_epu32(least_, _mm256_sub_epi32(bits, _mm256_set1_epi32(1)));
    most_ = _mm256_max_epu32(most_, bits);
  }
  SPJIT_AVX2_INLINE Magnitude range() const {
    alignas(32) std::array<std::uint32_t, 8> least{};
    alignas(32) std::array<std::uint32_t, 8> most{};
    _mm256_store_si256(reinterpret_cast<__m256i*>(least.data()), least_);
    _mm256_store_si256(reinterpret_cast<__m256i*>(most.data()), most_);
    const std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
    const std::uint32_t lowest = *std::ranges::min_element(least);
    return {lowest == none ? none : lowest + 1, *std::ranges::max_element(most)};
  }

 private:
  __m256i least_;
  __m256i most_;
};

}  // namespace spjit

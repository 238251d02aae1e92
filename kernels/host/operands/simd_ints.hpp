#pragma once

/// @file
/// Integers of 32 bits in the vectors of kernels/host/operands/simd.hpp, and their way to bytes.

#include <immintrin.h>

#include <cstdint>

#include "kernels/host/operands/simd.hpp"

namespace spjit {

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 says it of the masks in its own header, of what it has as macros without optimization.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif

struct Avx512Ints {
  using Isa = Avx512Zmm;
  using Vector = __m512i;

  SPJIT_AVX512_INLINE static Vector zero() { return _mm512_setzero_si512(); }
  SPJIT_AVX512_INLINE static Vector bits(__m512 floats) { return _mm512_castps_si512(floats); }
  SPJIT_AVX512_INLINE static Vector max_signed(Vector a, Vector b) {
    return _mm512_max_epi32(a, b);
  }
  SPJIT_AVX512_INLINE static Vector max_unsigned(Vector a, Vector b) {
    return _mm512_max_epu32(a, b);
  }
  SPJIT_AVX512_INLINE static std::int32_t most_signed(Vector ints) {
    return _mm512_reduce_max_epi32(ints);
  }
  SPJIT_AVX512_INLINE static std::uint32_t most_unsigned(Vector ints) {
    return _mm512_reduce_max_epu32(ints);
  }
  SPJIT_AVX512_INLINE static void store(std::int32_t* to, Vector ints) {
    _mm512_store_si512(to, ints);
  }
  SPJIT_AVX512_INLINE static Vector rounded(__m512 floats) { return _mm512_cvtps_epi32(floats); }
  SPJIT_AVX512_INLINE static __m512 floats(Vector ints) { return _mm512_cvtepi32_ps(ints); }
  /// Whether all are nearer to 0. NaN is not.
  SPJIT_AVX512_INLINE static bool are_below(__m512 floats, float bound) {
    return _mm512_cmp_ps_mask(_mm512_abs_ps(floats), _mm512_set1_ps(bound), _CMP_LT_OQ) == 0xFFFF;
  }
  SPJIT_AVX512_INLINE static Vector plus(Vector ints, std::int32_t added) {
    return _mm512_add_epi32(ints, _mm512_set1_epi32(added));
  }
  SPJIT_AVX512_INLINE static void store_bytes(std::uint8_t* to, Vector ints) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(ints));
  }
};

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

struct Avx2Ints {
  using Isa = Avx2Ymm;
  using Vector = __m256i;

  SPJIT_AVX2_INLINE static Vector zero() { return _mm256_setzero_si256(); }
  SPJIT_AVX2_INLINE static Vector bits(__m256 floats) { return _mm256_castps_si256(floats); }
  SPJIT_AVX2_INLINE static Vector max_signed(Vector a, Vector b) { return _mm256_max_epi32(a, b); }
  SPJIT_AVX2_INLINE static Vector max_unsigned(Vector a, Vector b) {
    return _mm256_max_epu32(a, b);
  }
  SPJIT_AVX2_INLINE static std::int32_t most_signed(Vector ints) {
    __m128i most = _mm_max_epi32(_mm256_castsi256_si128(ints), _mm256_extracti128_si256(ints, 1));
    most = _mm_max_epi32(most, _mm_shuffle_epi32(most, k_halves));
    most = _mm_max_epi32(most, _mm_shuffle_epi32(most, k_neighbours));
    return _mm_cvtsi128_si32(most);
  }
  SPJIT_AVX2_INLINE static std::uint32_t most_unsigned(Vector ints) {
    __m128i most = _mm_max_epu32(_mm256_castsi256_si128(ints), _mm256_extracti128_si256(ints, 1));
    most = _mm_max_epu32(most, _mm_shuffle_epi32(most, k_halves));
    most = _mm_max_epu32(most, _mm_shuffle_epi32(most, k_neighbours));
    return static_cast<std::uint32_t>(_mm_cvtsi128_si32(most));
  }
  SPJIT_AVX2_INLINE static void store(std::int32_t* to, Vector ints) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(to), ints);
  }
  SPJIT_AVX2_INLINE static Vector rounded(__m256 floats) { return _mm256_cvtps_epi32(floats); }
  SPJIT_AVX2_INLINE static __m256 floats(Vector ints) { return _mm256_cvtepi32_ps(ints); }
  /// Whether all are nearer to 0. NaN is not.
  SPJIT_AVX2_INLINE static bool are_below(__m256 floats, float bound) {
    const __m256 magnitudes = _mm256_andnot_ps(_mm256_set1_ps(-0.0F), floats);
    return _mm256_movemask_ps(_mm256_cmp_ps(magnitudes, _mm256_set1_ps(bound), _CMP_LT_OQ)) == 0xFF;
  }
  SPJIT_AVX2_INLINE static Vector plus(Vector ints, std::int32_t added) {
    return _mm256_add_epi32(ints, _mm256_set1_epi32(added));
  }
  /// The lowest eight bits of each.
  SPJIT_AVX2_INLINE static void store_bytes(std::uint8_t* to, Vector ints) {
    const __m256i lowest = _mm256_set1_epi32(0x0C08'0400);
    const __m256i fours = _mm256_shuffle_epi8(ints, lowest);
    const __m128i bytes =
        _mm_unpacklo_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), bytes);
  }

 private:
  static constexpr int k_halves = 0b01'00'11'10;
  static constexpr int k_neighbours = 0b10'11'00'01;
};

}  // namespace spjit

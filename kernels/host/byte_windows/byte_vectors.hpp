#pragma once

/// @file
/// Vectors of bytes, and of the sums of their products, for loops that are written once for several
/// instruction sets (byte_loops.inc).
///
/// Members of each: Vector of bytes or of sums, a lane a row of A; Floats; Signs; k_lanes; k_slots:
/// bytes of a Vector; zero, load, store, plus, times, floats; no_floats, times_short, add_scaled
/// and bits, where groups of columns have scales; load_bytes, table, shuffle; magnitudes(w) and
/// signs(w), with_signs(x, signs): x with the sign of w; sums_of_pairs(x, w): two products each of
/// an unsigned and a signed byte, which saturate in 16 bits; sums_of_shorts: two of those each. Of
/// those with vpdpbusd: add_products(sums, x, w).

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/host/operands/simd.hpp"

#define SPJIT_AVXVNNI_TARGET __attribute__((target("avxvnni,avx2,fma,f16c")))
#define SPJIT_AVXVNNI_INLINE SPJIT_AVXVNNI_TARGET __attribute__((always_inline)) inline
#define SPJIT_VNNI_TARGET \
  __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")))
#define SPJIT_VNNI_INLINE SPJIT_VNNI_TARGET __attribute__((always_inline)) inline
#define SPJIT_VBMI_TARGET                                                         \
  __attribute__((                                                                 \
      target("avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,avx512vnni,avx2,fma," \
             "f16c")))
#define SPJIT_VBMI_INLINE SPJIT_VBMI_TARGET __attribute__((always_inline)) inline

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 says it of the registers that its own header leaves undefined (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace spjit {

/// AVX2.
struct ByteYmm {
  using Vector = __m256i;
  using Floats = __m256;
  using Signs = __m256i;
  static constexpr std::size_t k_lanes = 8;
  static constexpr std::ptrdiff_t k_slots = 32;

  SPJIT_AVX2_INLINE static Vector zero() { return _mm256_setzero_si256(); }
  SPJIT_AVX2_INLINE static Vector load(const std::int32_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  SPJIT_AVX2_INLINE static void store(std::int32_t* to, Vector value) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(to), value);
  }
  SPJIT_AVX2_INLINE static Vector plus(Vector a, Vector b) { return _mm256_add_epi32(a, b); }
  SPJIT_AVX2_INLINE static Vector times(Vector a, std::int32_t b) {
    return _mm256_mullo_epi32(a, _mm256_set1_epi32(b));
  }
  SPJIT_AVX2_INLINE static Vector floats(Vector sums) {
    return _mm256_castps_si256(_mm256_cvtepi32_ps(sums));
  }
  SPJIT_AVX2_INLINE static Floats no_floats() { return _mm256_setzero_ps(); }
  /// 16-bit numbers times one.
  SPJIT_AVX2_INLINE static Vector times_short(const std::int16_t* from, std::int32_t factor) {
    const __m256i wide =
        _mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    return _mm256_madd_epi16(wide, _mm256_set1_epi32(factor & 0xFFFF));
  }
  /// Adds the exact sums, times their scales.
  SPJIT_AVX2_INLINE static Floats add_scaled(const float* scales, Vector sums, Floats totals) {
    return _mm256_fmadd_ps(_mm256_loadu_ps(scales), _mm256_cvtepi32_ps(sums), totals);
  }
  SPJIT_AVX2_INLINE static Vector bits(Floats totals) { return _mm256_castps_si256(totals); }

  SPJIT_AVX2_INLINE static Vector load_bytes(const std::uint8_t* aligned) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(aligned));
  }
  SPJIT_AVX2_INLINE static Vector bytes(int byte) {
    return _mm256_set1_epi8(static_cast<char>(byte));
  }
  SPJIT_AVX2_INLINE static Vector shorts(short number) { return _mm256_set1_epi16(number); }
  SPJIT_AVX2_INLINE static Vector both(Vector a, Vector b) { return _mm256_and_si256(a, b); }
  SPJIT_AVX2_INLINE static Vector without(Vector a, Vector b) { return _mm256_andnot_si256(b, a); }
  SPJIT_AVX2_INLINE static Vector either(Vector a, Vector b) { return _mm256_or_si256(a, b); }
  SPJIT_AVX2_INLINE static Vector one_of(Vector a, Vector b) { return _mm256_xor_si256(a, b); }
  template <int Bits>
  SPJIT_AVX2_INLINE static Vector shift_shorts_right(Vector a) {
    return _mm256_srli_epi16(a, Bits);
  }
  template <int Bits>
  SPJIT_AVX2_INLINE static Vector shift_left(Vector sums) {
    return _mm256_slli_epi32(sums, Bits);
  }
  template <int Bits>
  SPJIT_AVX2_INLINE static Vector shift_right(Vector sums) {
    return _mm256_srai_epi32(sums, Bits);
  }
  /// Sixteen bytes, in each part that `shuffle` looks into.
  SPJIT_AVX2_INLINE static Vector table(__m128i bytes) {
    return _mm256_broadcastsi128_si256(bytes);
  }
  SPJIT_AVX2_INLINE static Vector shuffle(Vector table, Vector places) {
    return _mm256_shuffle_epi8(table, places);
  }
  SPJIT_AVX2_INLINE static Vector magnitudes(Vector w) { return _mm256_abs_epi8(w); }
  SPJIT_AVX2_INLINE static Signs signs(Vector w) { return w; }
  SPJIT_AVX2_INLINE static Vector with_signs(Vector x, Signs signs) {
    return _mm256_sign_epi8(x, signs);
  }
  SPJIT_AVX2_INLINE static Vector sums_of_pairs(Vector x, Vector w) {
    return _mm256_maddubs_epi16(x, w);
  }
  SPJIT_AVX2_INLINE static Vector sums_of_shorts(Vector products) {
    return _mm256_madd_epi16(products, shorts(1));
  }
};

/// With AVX-VNNI.
struct VnniYmm : ByteYmm {
  SPJIT_AVXVNNI_INLINE static Vector add_products(Vector sums, Vector x, Vector w) {
    return _mm256_dpbusd_avx_epi32(sums, x, w);
  }
};

/// AVX-512 with BW.
struct ByteZmm {
  using Vector = __m512i;
  using Floats = __m512;
  using Signs = __mmask64;
  static constexpr std::size_t k_lanes = 16;
  static constexpr std::ptrdiff_t k_slots = 64;

  SPJIT_AVX512BW_INLINE static Vector zero() { return _mm512_setzero_si512(); }
  SPJIT_AVX512BW_INLINE static Vector load(const std::int32_t* from) {
    return _mm512_loadu_si512(from);
  }
  SPJIT_AVX512BW_INLINE static void store(std::int32_t* to, Vector value) {
    _mm512_store_si512(to, value);
  }
  SPJIT_AVX512BW_INLINE static Vector plus(Vector a, Vector b) { return _mm512_add_epi32(a, b); }
  SPJIT_AVX512BW_INLINE static Vector times(Vector a, std::int32_t b) {
    return _mm512_mullo_epi32(a, _mm512_set1_epi32(b));
  }
  SPJIT_AVX512BW_INLINE static Vector floats(Vector sums) {
    return _mm512_castps_si512(_mm512_cvtepi32_ps(sums));
  }
  SPJIT_AVX512BW_INLINE static Floats no_floats() { return _mm512_setzero_ps(); }
  /// 16-bit numbers times one.
  SPJIT_AVX512BW_INLINE static Vector times_short(const std::int16_t* from, std::int32_t factor) {
    const __m512i wide =
        _mm512_cvtepi16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
    return _mm512_madd_epi16(wide, _mm512_set1_epi32(factor & 0xFFFF));
  }
  /// Adds the exact sums, times their scales.
  SPJIT_AVX512BW_INLINE static Floats add_scaled(const float* scales, Vector sums, Floats totals) {
    return _mm512_fmadd_ps(_mm512_loadu_ps(scales), _mm512_cvtepi32_ps(sums), totals);
  }
  SPJIT_AVX512BW_INLINE static Vector bits(Floats totals) { return _mm512_castps_si512(totals); }

  SPJIT_AVX512BW_INLINE static Vector load_bytes(const std::uint8_t* aligned) {
    return _mm512_load_si512(aligned);
  }
  SPJIT_AVX512BW_INLINE static Vector bytes(int byte) {
    return _mm512_set1_epi8(static_cast<char>(byte));
  }
  SPJIT_AVX512BW_INLINE static Vector shorts(short number) { return _mm512_set1_epi16(number); }
  SPJIT_AVX512BW_INLINE static Vector both(Vector a, Vector b) { return _mm512_and_si512(a, b); }
  SPJIT_AVX512BW_INLINE static Vector without(Vector a, Vector b) {
    return _mm512_andnot_si512(b, a);
  }
  SPJIT_AVX512BW_INLINE static Vector either(Vector a, Vector b) { return _mm512_or_si512(a, b); }
  SPJIT_AVX512BW_INLINE static Vector one_of(Vector a, Vector b) { return _mm512_xor_si512(a, b); }
  template <int Bits>
  SPJIT_AVX512BW_INLINE static Vector shift_shorts_right(Vector a) {
    return _mm512_srli_epi16(a, Bits);
  }
  template <int Bits>
  SPJIT_AVX512BW_INLINE static Vector shift_left(Vector sums) {
    return _mm512_slli_epi32(sums, Bits);
  }
  template <int Bits>
  SPJIT_AVX512BW_INLINE static Vector shift_right(Vector sums) {
    return _mm512_srai_epi32(sums, Bits);
  }
  /// Sixteen bytes, in each part that `shuffle` looks into.
  SPJIT_AVX512BW_INLINE static Vector table(__m128i bytes) { return _mm512_broadcast_i32x4(bytes); }
  SPJIT_AVX512BW_INLINE static Vector shuffle(Vector table, Vector places) {
    return _mm512_shuffle_epi8(table, places);
  }
  SPJIT_AVX512BW_INLINE static Vector magnitudes(Vector w) { return _mm512_abs_epi8(w); }
  SPJIT_AVX512BW_INLINE static Signs signs(Vector w) { return _mm512_movepi8_mask(w); }
  SPJIT_AVX512BW_INLINE static Vector with_signs(Vector x, Signs signs) {
    return _mm512_mask_sub_epi8(x, signs, zero(), x);
  }
  SPJIT_AVX512BW_INLINE static Vector sums_of_pairs(Vector x, Vector w) {
    return _mm512_maddubs_epi16(x, w);
  }
  SPJIT_AVX512BW_INLINE static Vector sums_of_shorts(Vector products) {
    return _mm512_madd_epi16(products, shorts(1));
  }
};

/// With VNNI.
struct VnniZmm : ByteZmm {
  SPJIT_VNNI_INLINE static Vector add_products(Vector sums, Vector x, Vector w) {
    return _mm512_dpbusd_epi32(sums, x, w);
  }
};

/// With VBMI, too.
struct VbmiZmm : VnniZmm {
  SPJIT_VBMI_INLINE static Vector load_table(const std::uint8_t* from) {
    return _mm512_loadu_si512(from);
  }
  /// It takes the low six bits of a place.
  SPJIT_VBMI_INLINE static Vector permute(Vector table, Vector places) {
    return _mm512_permutexvar_epi8(places, table);
  }
};

}  // namespace spjit

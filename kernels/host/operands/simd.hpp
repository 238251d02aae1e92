#pragma once

/// @file
/// Vectors of floats for loops that are written once for several instruction sets. Their members
/// are inlined into functions with the same target attribute, so a loop is a template over them in
/// a file that is included once for each attribute.
///
/// Members of each: Vector, Mask; k_floats of a Vector; mask(floats): the first ones; zero, load,
/// store, broadcast, fma; weights(step): eight floats; weight(weights, lane): that lane of them in
/// all; of some, four(from): four floats, and weight_of_four(four, lane) the same. And members of
/// those that compute activations:
/// - fnma(a, b, c): c - a * b, rounded once; add, sub, mul, div, floor
/// - max, min: as x86 has them: b where one of both is NaN, or both are zeros
/// - magnitude(x, most): |x|, but `most` where that is smaller or x is NaN
/// - zero_negative(x): x; where it is negative, x * 0: -0, and NaN of -infinity
/// - table(entries): k_table of them, aligned; lookup(table, x): of each lane the entry that the
///   lowest bits of x's mantissa name
/// - exp_argument(x): x, limited where e^-x is infinite in float or does not change 1
/// - add_scaled(p, k, a): p * 2^k + a, rounded once, of p in [1, 2] and k = floor(-x / ln 2) of
///   such an x
/// - abs(x); copysign(x, sign) of an x that is not negative
/// - where_less(x, bound, a, b): a where x is less than the bound, else b
/// - power_of_two(x): 2^(n - 127) of the number n in x's lowest eight bits: 0 of 0, infinity of 255
/// - k_together: vectors that are activated at once

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/activation_constants.hpp"

// The features of HostIsa::avx512 and HostIsa::avx2 that loops in C++ use.
#define SPJIT_AVX512_TARGET __attribute__((target("avx512f,avx512dq,avx512vl,avx2,fma")))
#define SPJIT_AVX512_INLINE SPJIT_AVX512_TARGET __attribute__((always_inline)) inline
#define SPJIT_AVX2_TARGET __attribute__((target("avx2,fma,f16c")))
#define SPJIT_AVX2_INLINE SPJIT_AVX2_TARGET __attribute__((always_inline)) inline
// For loops over elements of 16 bits, what else HostIsa::avx512 has.
#define SPJIT_AVX512BW_TARGET \
  __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma,f16c")))
#define SPJIT_AVX512BW_INLINE SPJIT_AVX512BW_TARGET __attribute__((always_inline)) inline

namespace spjit {

/// e^x of this is infinite in float.
inline constexpr float k_exp_overflow = 89;
/// 1 + e^-x of this is 1 in float, and e^-x is not denormal.
inline constexpr float k_exp_smallest = 87;

// Immediates of vrangeps: the smaller magnitude with the sign of the first operand, or without a
// sign.
inline constexpr int k_smaller_magnitude = 2;
inline constexpr int k_sign_clear = 2 << 2;
/// Table of vfixupimmps: what becomes of classes of x, four bits each: -0 of negative ones, NaN of
/// -infinity, x itself of all others.
inline constexpr int k_negative_is_zero = 0x17131121;

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 says it of the masks in its own header, of what it has as macros without optimization.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif

/// Sixteen floats.
struct Avx512Zmm {
  using Value = float;  // of weights and of four
  using Vector = __m512;
  using Mask = __mmask16;
  static constexpr std::int64_t k_floats = 16;
  static constexpr std::int64_t k_table = 16;
  static constexpr std::size_t k_together = 1;

  SPJIT_AVX512_INLINE static Mask mask(std::int64_t columns) {
    return static_cast<Mask>((1U << columns) - 1);
  }

  SPJIT_AVX512_INLINE static Vector zero() { return _mm512_setzero_ps(); }
  SPJIT_AVX512_INLINE static Vector load(const float* from) { return _mm512_loadu_ps(from); }
  SPJIT_AVX512_INLINE static Vector load(const float* from, Mask mask) {
    return _mm512_maskz_loadu_ps(mask, from);
  }
  SPJIT_AVX512_INLINE static void store(float* to, Vector value) { _mm512_storeu_ps(to, value); }
  SPJIT_AVX512_INLINE static void store(float* to, Vector value, Mask mask) {
    _mm512_mask_storeu_ps(to, mask, value);
  }
  SPJIT_AVX512_INLINE static Vector weights(const float* step) {
    return _mm512_castps256_ps512(_mm256_load_ps(step));
  }
  SPJIT_AVX512_INLINE static Vector weight(Vector weights, int lane) {
    return _mm512_permutexvar_ps(_mm512_set1_epi32(lane), weights);
  }
  SPJIT_AVX512_INLINE static Vector four(const float* from) {
    return _mm512_broadcast_f32x4(_mm_loadu_ps(from));
  }
  SPJIT_AVX512_INLINE static Vector weight_of_four(Vector four, int lane) {
    switch (lane) {
      case 0:
        return _mm512_permute_ps(four, 0x00);
      case 1:
        return _mm512_permute_ps(four, 0x55);
      case 2:
        return _mm512_permute_ps(four, 0xAA);
      default:
        return _mm512_permute_ps(four, 0xFF);
    }
  }
  SPJIT_AVX512_INLINE static Vector broadcast(float value) { return _mm512_set1_ps(value); }
  SPJIT_AVX512_INLINE static Vector fma(Vector a, Vector b, Vector c) {
    return _mm512_fmadd_ps(a, b, c);
  }

  SPJIT_AVX512_INLINE static Vector add(Vector a, Vector b) { return _mm512_add_ps(a, b); }
  SPJIT_AVX512_INLINE static Vector sub(Vector a, Vector b) { return _mm512_sub_ps(a, b); }
  SPJIT_AVX512_INLINE static Vector mul(Vector a, Vector b) { return _mm512_mul_ps(a, b); }
  SPJIT_AVX512_INLINE static Vector div(Vector a, Vector b) { return _mm512_div_ps(a, b); }
  SPJIT_AVX512_INLINE static Vector max(Vector a, Vector b) { return _mm512_max_ps(a, b); }
  SPJIT_AVX512_INLINE static Vector min(Vector a, Vector b) { return _mm512_min_ps(a, b); }
  SPJIT_AVX512_INLINE static Vector fnma(Vector a, Vector b, Vector c) {
    return _mm512_fnmadd_ps(a, b, c);
  }
  SPJIT_AVX512_INLINE static Vector floor(Vector x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  }
  SPJIT_AVX512_INLINE static Vector magnitude(Vector x, Vector most) {
    return _mm512_range_ps(x, most, k_smaller_magnitude | k_sign_clear);
  }
  SPJIT_AVX512_INLINE static Vector zero_negative(Vector x) {
    return _mm512_fixupimm_ps(x, x, _mm512_set1_epi32(k_negative_is_zero), 0);
  }
  SPJIT_AVX512_INLINE static Vector table(const float* entries) { return _mm512_load_ps(entries); }
  SPJIT_AVX512_INLINE static Vector lookup(Vector table, Vector x) {
    return _mm512_permutexvar_ps(_mm512_castps_si512(x), table);
  }
  SPJIT_AVX512_INLINE static Vector exp_argument(Vector x) {
    return _mm512_range_ps(x, broadcast(k_exp_overflow), k_smaller_magnitude);
  }
  SPJIT_AVX512_INLINE static Vector add_scaled(Vector p, Vector k, Vector a) {
    return add(_mm512_scalef_ps(p, k), a);
  }
  SPJIT_AVX512_INLINE static Vector abs(Vector x) { return _mm512_andnot_ps(broadcast(-0.0F), x); }
  SPJIT_AVX512_INLINE static Vector copysign(Vector x, Vector sign) {
    return _mm512_or_ps(x, _mm512_and_ps(broadcast(-0.0F), sign));
  }
  SPJIT_AVX512_INLINE static Vector where_less(Vector x, Vector bound, Vector a, Vector b) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, bound, _CMP_LT_OQ), b, a);
  }
  SPJIT_AVX512_INLINE static Vector power_of_two(Vector x) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(x), 23));
  }
};

/// Eight floats.
struct Avx512Ymm {
  using Value = float;  // of weights and of four
  using Vector = __m256;
  using Mask = __mmask8;
  static constexpr std::int64_t k_floats = 8;
  static constexpr std::int64_t k_table = 16;
  static constexpr std::size_t k_together = 1;

  SPJIT_AVX512_INLINE static Mask mask(std::int64_t columns) {
    return static_cast<Mask>((1U << columns) - 1);
  }

  SPJIT_AVX512_INLINE static Vector zero() { return _mm256_setzero_ps(); }
  SPJIT_AVX512_INLINE static Vector load(const float* from) { return _mm256_loadu_ps(from); }
  SPJIT_AVX512_INLINE static Vector load(const float* from, Mask mask) {
    return _mm256_maskz_loadu_ps(mask, from);
  }
  SPJIT_AVX512_INLINE static void store(float* to, Vector value) { _mm256_storeu_ps(to, value); }
  SPJIT_AVX512_INLINE static void store(float* to, Vector value, Mask mask) {
    _mm256_mask_storeu_ps(to, mask, value);
  }
  SPJIT_AVX512_INLINE static Vector weights(const float* step) { return _mm256_load_ps(step); }
  SPJIT_AVX512_INLINE static Vector weight(Vector weights, int lane) {
    return _mm256_permutevar8x32_ps(weights, _mm256_set1_epi32(lane));
  }
  SPJIT_AVX512_INLINE static Vector four(const float* from) {
    return _mm256_broadcast_ps(reinterpret_cast<const __m128*>(from));
  }
  SPJIT_AVX512_INLINE static Vector weight_of_four(Vector four, int lane) {
    return weight(four, lane);
  }
  SPJIT_AVX512_INLINE static Vector broadcast(float value) { return _mm256_set1_ps(value); }
  SPJIT_AVX512_INLINE static Vector fma(Vector a, Vector b, Vector c) {
    return _mm256_fmadd_ps(a, b, c);
  }

  SPJIT_AVX512_INLINE static Vector add(Vector a, Vector b) { return _mm256_add_ps(a, b); }
  SPJIT_AVX512_INLINE static Vector sub(Vector a, Vector b) { return _mm256_sub_ps(a, b); }
  SPJIT_AVX512_INLINE static Vector mul(Vector a, Vector b) { return _mm256_mul_ps(a, b); }
  SPJIT_AVX512_INLINE static Vector div(Vector a, Vector b) { return _mm256_div_ps(a, b); }
  SPJIT_AVX512_INLINE static Vector max(Vector a, Vector b) { return _mm256_max_ps(a, b); }
  SPJIT_AVX512_INLINE static Vector min(Vector a, Vector b) { return _mm256_min_ps(a, b); }
  SPJIT_AVX512_INLINE static Vector fnma(Vector a, Vector b, Vector c) {
    return _mm256_fnmadd_ps(a, b, c);
  }
  SPJIT_AVX512_INLINE static Vector floor(Vector x) {
    return _mm256_roundscale_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  }
  SPJIT_AVX512_INLINE static Vector magnitude(Vector x, Vector most) {
    return _mm256_range_ps(x, most, k_smaller_magnitude | k_sign_clear);
  }
  SPJIT_AVX512_INLINE static Vector zero_negative(Vector x) {
    return _mm256_fixupimm_ps(x, x, _mm256_set1_epi32(k_negative_is_zero), 0);
  }
  struct Table {
    __m256 low;
    __m256 high;
  };
  SPJIT_AVX512_INLINE static Table table(const float* entries) {
    return {_mm256_load_ps(entries), _mm256_load_ps(entries + 8)};
  }
  SPJIT_AVX512_INLINE static Vector lookup(const Table& table, Vector x) {
    return _mm256_permutex2var_ps(table.low, _mm256_castps_si256(x), table.high);
  }
  SPJIT_AVX512_INLINE static Vector exp_argument(Vector x) {
    return _mm256_range_ps(x, broadcast(k_exp_overflow), k_smaller_magnitude);
  }
  SPJIT_AVX512_INLINE static Vector add_scaled(Vector p, Vector k, Vector a) {
    return add(_mm256_scalef_ps(p, k), a);
  }
  SPJIT_AVX512_INLINE static Vector abs(Vector x) { return _mm256_andnot_ps(broadcast(-0.0F), x); }
  SPJIT_AVX512_INLINE static Vector copysign(Vector x, Vector sign) {
    return _mm256_or_ps(x, _mm256_and_ps(broadcast(-0.0F), sign));
  }
  SPJIT_AVX512_INLINE static Vector where_less(Vector x, Vector bound, Vector a, Vector b) {
    return _mm256_mask_blend_ps(_mm256_cmp_ps_mask(x, bound, _CMP_LT_OQ), b, a);
  }
  SPJIT_AVX512_INLINE static Vector power_of_two(Vector x) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x), 23));
  }
};

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

/// Eight floats.
struct Avx2Ymm {
  using Value = float;  // of weights and of four
  using Vector = __m256;
  using Mask = __m256i;
  static constexpr std::int64_t k_floats = 8;
  static constexpr std::int64_t k_table = 4;
  static constexpr std::size_t k_together = 4;

  /// Four values in both halves each: a lane is then broadcast without an index.
  struct Weights {
    __m256 low;
    __m256 high;
  };

  SPJIT_AVX2_INLINE static Mask mask(std::int64_t columns) {
    alignas(64) static constexpr std::int32_t k_lanes_on[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(k_lanes_on + 8 - columns));
  }
  SPJIT_AVX2_INLINE static Vector zero() { return _mm256_setzero_ps(); }
  SPJIT_AVX2_INLINE static Vector load(const float* from) { return _mm256_loadu_ps(from); }
  SPJIT_AVX2_INLINE static Vector load(const float* from, Mask mask) {
    return _mm256_maskload_ps(from, mask);
  }
  SPJIT_AVX2_INLINE static void store(float* to, Vector value) { _mm256_storeu_ps(to, value); }
  /// Not by vmaskmovps, of which Zen 4 stores one in a dozen cycles: the first `count` lanes.
  SPJIT_AVX2_INLINE static void store(float* to, Vector value, Mask mask) {
    const int count =
        __builtin_popcount(static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(mask))));
    if (count == k_floats) return store(to, value);
    __m128 rest = _mm256_castps256_ps128(value);
    if ((count & 4) != 0) {
      _mm_storeu_ps(to, rest);
      rest = _mm256_extractf128_ps(value, 1);
      to += 4;
    }
    if ((count & 2) != 0) {
      _mm_storel_pi(reinterpret_cast<__m64*>(to), rest);
      rest = _mm_movehl_ps(rest, rest);
      to += 2;
    }
    if ((count & 1) != 0) _mm_store_ss(to, rest);
  }
  SPJIT_AVX2_INLINE static Weights weights(const float* step) {
    return {four(step), four(step + 4)};
  }
  SPJIT_AVX2_INLINE static Vector weight(const Weights& weights, int lane) {
    return weight_of_four(lane < 4 ? weights.low : weights.high, lane % 4);
  }
  SPJIT_AVX2_INLINE static Vector four(const float* from) {
    return _mm256_broadcast_ps(reinterpret_cast<const __m128*>(from));
  }
  SPJIT_AVX2_INLINE static Vector weight_of_four(Vector four, int lane) {
    switch (lane) {
      case 0:
        return _mm256_permute_ps(four, 0x00);
      case 1:
        return _mm256_permute_ps(four, 0x55);
      case 2:
        return _mm256_permute_ps(four, 0xAA);
      default:
        return _mm256_permute_ps(four, 0xFF);
    }
  }
  SPJIT_AVX2_INLINE static Vector broadcast(float value) { return _mm256_set1_ps(value); }
  SPJIT_AVX2_INLINE static Vector fma(Vector a, Vector b, Vector c) {
    return _mm256_fmadd_ps(a, b, c);
  }

  SPJIT_AVX2_INLINE static Vector add(Vector a, Vector b) { return _mm256_add_ps(a, b); }
  SPJIT_AVX2_INLINE static Vector sub(Vector a, Vector b) { return _mm256_sub_ps(a, b); }
  SPJIT_AVX2_INLINE static Vector mul(Vector a, Vector b) { return _mm256_mul_ps(a, b); }
  SPJIT_AVX2_INLINE static Vector div(Vector a, Vector b) { return _mm256_div_ps(a, b); }
  SPJIT_AVX2_INLINE static Vector max(Vector a, Vector b) { return _mm256_max_ps(a, b); }
  SPJIT_AVX2_INLINE static Vector min(Vector a, Vector b) { return _mm256_min_ps(a, b); }
  SPJIT_AVX2_INLINE static Vector fnma(Vector a, Vector b, Vector c) {
    return _mm256_fnmadd_ps(a, b, c);
  }
  SPJIT_AVX2_INLINE static Vector floor(Vector x) { return _mm256_floor_ps(x); }
  SPJIT_AVX2_INLINE static Vector magnitude(Vector x, Vector most) {
    return min(_mm256_andnot_ps(broadcast(-0.0F), x), most);
  }
  SPJIT_AVX2_INLINE static Vector zero_negative(Vector x) {
    const Vector infinite =
        _mm256_cmp_ps(x, broadcast(-std::numeric_limits<float>::infinity()), _CMP_EQ_OQ);
    return _mm256_or_ps(max(broadcast(-0.0F), x), infinite);
  }
  /// In both halves: lanes of a half are permuted at half the cost.
  SPJIT_AVX2_INLINE static Vector table(const float* entries) {
    return _mm256_broadcast_ps(reinterpret_cast<const __m128*>(entries));
  }
  SPJIT_AVX2_INLINE static Vector lookup(Vector table, Vector x) {
    return _mm256_permutevar_ps(table, _mm256_castps_si256(x));
  }
  SPJIT_AVX2_INLINE static Vector exp_argument(Vector x) {
    return max(broadcast(-k_exp_overflow), min(broadcast(k_exp_smallest), x));
  }
  SPJIT_AVX2_INLINE static Vector add_scaled(Vector p, Vector k, Vector a) {
    // The sum's lowest bits are the exponent field of 2^k: 255 of 2^128, which is infinity.
    return fma(p, power_of_two(add(k, broadcast(k_exponent_field))), a);
  }
  SPJIT_AVX2_INLINE static Vector abs(Vector x) { return _mm256_andnot_ps(broadcast(-0.0F), x); }
  SPJIT_AVX2_INLINE static Vector copysign(Vector x, Vector sign) {
    return _mm256_or_ps(x, _mm256_and_ps(broadcast(-0.0F), sign));
  }
  SPJIT_AVX2_INLINE static Vector where_less(Vector x, Vector bound, Vector a, Vector b) {
    return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, bound, _CMP_LT_OQ));
  }
  SPJIT_AVX2_INLINE static Vector power_of_two(Vector x) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x), 23));
  }
};

/// Four floats, for every x86-64; without weights.
struct GenericXmm {
  using Vector = __m128;
  using Mask = std::int64_t;  // floats
  static constexpr std::int64_t k_floats = 4;
  static constexpr std::size_t k_together = 1;

  static Mask mask(std::int64_t floats) { return floats; }
  static Vector zero() { return _mm_setzero_ps(); }
  static Vector broadcast(float value) { return _mm_set1_ps(value); }
  static Vector add(Vector a, Vector b) { return _mm_add_ps(a, b); }
  static Vector mul(Vector a, Vector b) { return _mm_mul_ps(a, b); }
  static Vector load(const float* from) { return _mm_loadu_ps(from); }
  static Vector load(const float* from, Mask floats) {
    return floats == k_floats ? load(from) : load_some(from, floats);
  }
  /// Two roundings. The compiler must not see through the product: with -ffp-contract=fast and
  /// -march=native it would make one FMA of it.
  static Vector fma(Vector value, Vector b, Vector sum) {
    Vector product = value * b;
    asm("" : "+x"(product));
    return sum + product;
  }
  static void store(float* to, Vector sum) { _mm_storeu_ps(to, sum); }
  static void store(float* to, Vector sum, Mask floats) {
    alignas(16) std::array<float, k_floats> last{};
    _mm_store_ps(last.data(), sum);
    std::copy_n(last.begin(), floats, to);
  }

 private:
  static Vector load_some(const float* from, Mask floats) {
    alignas(16) std::array<float, k_floats> padded{};
    std::copy_n(from, floats, padded.begin());
    return _mm_load_ps(padded.data());
  }
};

}  // namespace spjit

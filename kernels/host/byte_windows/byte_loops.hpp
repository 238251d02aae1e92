#pragma once

/// @file
/// What the instructions of each form do with a step of bytes. For the files that have loops.

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/host/operands/simd.hpp"

#define SPJIT_VNNI_TARGET \
  __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,avx512vnni,avx2,fma")))
#define SPJIT_VNNI_INLINE SPJIT_VNNI_TARGET __attribute__((always_inline)) inline

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 says it of the registers that its own header leaves undefined (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace spjit {

/// AVX2: columns of one table.
inline constexpr std::int64_t k_half_window = 16;
/// In a place of AVX2: it is in the other half of the window, and vpshufb gives 0.
inline constexpr std::uint8_t k_other_half = 0x80;

/// Asks for a line of A long before its use. It need not be there.
__attribute__((always_inline)) inline void fetch_line(const std::uint8_t* bytes) {
  constexpr std::ptrdiff_t k_bytes_ahead = 2048;
  _mm_prefetch(bytes + k_bytes_ahead, _MM_HINT_T0);
}

namespace byte_loops {

struct VnniBytes {
  using Vector = __m512i;
  struct Step {
    __m512i places;
    __m512i values;
  };
  static constexpr std::size_t k_lanes = 16;
  static constexpr std::ptrdiff_t k_slots = 64;
  static constexpr std::ptrdiff_t k_value_bytes = k_slots;  ///< of a step, besides its slots
  /// Sums of one token that would wait for each other.
  static constexpr std::size_t chains(std::size_t tokens) {
    return tokens == 1 ? 4 : tokens <= 3 ? 2 : 1;
  }

  SPJIT_VNNI_INLINE static Vector zero() { return _mm512_setzero_si512(); }
  SPJIT_VNNI_INLINE static Vector load(const std::int32_t* from) {
    return _mm512_loadu_si512(from);
  }
  SPJIT_VNNI_INLINE static void store(std::int32_t* to, Vector value) {
    _mm512_store_si512(to, value);
  }
  SPJIT_VNNI_INLINE static Vector plus(Vector a, Vector b) { return _mm512_add_epi32(a, b); }
  SPJIT_VNNI_INLINE static Vector times(Vector a, std::int32_t b) {
    return _mm512_mullo_epi32(a, _mm512_set1_epi32(b));
  }
  SPJIT_VNNI_INLINE static Vector floats(Vector sums) {
    return _mm512_castps_si512(_mm512_cvtepi32_ps(sums));
  }
  // Where groups of columns have scales, their sums become floats.
  using Floats = __m512;
  SPJIT_VNNI_INLINE static Floats no_floats() { return _mm512_setzero_ps(); }
  /// 16-bit numbers times one.
  SPJIT_VNNI_INLINE static Vector times_short(const std::int16_t* from, std::int32_t factor) {
    const __m512i wide =
        _mm512_cvtepi16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
    return _mm512_madd_epi16(wide, _mm512_set1_epi32(factor & 0xFFFF));
  }
  /// Adds the exact sums, times their scales.
  SPJIT_VNNI_INLINE static Floats add_scaled(const float* scales, Vector sums, Floats totals) {
    return _mm512_fmadd_ps(_mm512_loadu_ps(scales), _mm512_cvtepi32_ps(sums), totals);
  }
  SPJIT_VNNI_INLINE static Vector bits(Floats totals) { return _mm512_castps_si512(totals); }
  /// The sums of what a loop adds up, and the other way round.
  SPJIT_VNNI_INLINE static Vector whole(Vector sums) { return sums; }
  SPJIT_VNNI_INLINE static Vector parts(Vector sums) { return sums; }
  SPJIT_VNNI_INLINE static Step step(const std::uint8_t* places, const std::uint8_t* values) {
    return {_mm512_load_si512(places), _mm512_load_si512(values)};
  }
  SPJIT_VNNI_INLINE static Vector add(const std::uint8_t* window, const Step& step, Vector sums) {
    const __m512i bytes = _mm512_permutexvar_epi8(step.places, _mm512_loadu_si512(window));
    return _mm512_dpbusd_epi32(sums, bytes, step.values);
  }
  SPJIT_VNNI_INLINE static void fetch_ahead(const std::uint8_t* places,
                                            const std::uint8_t* values) {
    fetch_line(places);
    fetch_line(values);
  }
};

/// An entry is a byte: its place in the low four bits, its value in the high ones, which is taken
/// times 16. Of a place, vpermb takes the low six bits; its table has the window four times.
struct VnniNibbles : VnniBytes {
  static constexpr std::ptrdiff_t k_value_bytes = 0;

  SPJIT_VNNI_INLINE static Step step(const std::uint8_t* slots, const std::uint8_t* /*values*/) {
    const __m512i bytes = _mm512_load_si512(slots);
    return {bytes, _mm512_and_si512(bytes, _mm512_set1_epi8(static_cast<char>(0xF0)))};
  }
  SPJIT_VNNI_INLINE static Vector add(const std::uint8_t* window, const Step& step, Vector sums) {
    const __m512i table =
        _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(window)));
    return _mm512_dpbusd_epi32(sums, _mm512_permutexvar_epi8(step.places, table), step.values);
  }
  SPJIT_VNNI_INLINE static Vector whole(Vector sums) { return _mm512_srai_epi32(sums, 4); }
  SPJIT_VNNI_INLINE static Vector parts(Vector sums) { return _mm512_slli_epi32(sums, 4); }
  SPJIT_VNNI_INLINE static void fetch_ahead(const std::uint8_t* slots,
                                            const std::uint8_t* /*values*/) {
    fetch_line(slots);
  }
};

/// Bytes that a window of 16 or 32 columns gives: its halves are tables of their own.
template <std::int64_t Window>
struct Avx2Window {
  __m256i near;
  __m256i far;

  SPJIT_AVX2_INLINE static Avx2Window of(const std::uint8_t* places) {
    const __m256i near = _mm256_load_si256(reinterpret_cast<const __m256i*>(places));
    const auto other = static_cast<char>(k_other_half);
    return {near, _mm256_xor_si256(near, _mm256_set1_epi8(other))};
  }
  SPJIT_AVX2_INLINE static __m256i table(const std::uint8_t* from) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  SPJIT_AVX2_INLINE __m256i fetch(const std::uint8_t* window) const {
    const __m256i bytes = _mm256_shuffle_epi8(table(window), near);
    if constexpr (Window == k_half_window) return bytes;
    return _mm256_or_si256(bytes, _mm256_shuffle_epi8(table(window + k_half_window), far));
  }
};

struct Avx2Sums {
  using Vector = __m256i;
  static constexpr std::size_t k_lanes = 8;
  static constexpr std::ptrdiff_t k_slots = 32;
  static constexpr std::ptrdiff_t k_value_bytes = k_slots;  ///< of a step, besides its slots
  static constexpr std::size_t chains(std::size_t /*tokens*/) { return 1; }

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
  // Where groups of columns have scales, their sums become floats.
  using Floats = __m256;
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
  /// The sums of what a loop adds up, and the other way round.
  SPJIT_AVX2_INLINE static Vector whole(Vector sums) { return sums; }
  SPJIT_AVX2_INLINE static Vector parts(Vector sums) { return sums; }
  SPJIT_AVX2_INLINE static Vector values_of(const std::uint8_t* values) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(values));
  }
  /// Sums of two neighbours of 16 bits.
  SPJIT_AVX2_INLINE static Vector pairs(Vector products) {
    return _mm256_madd_epi16(products, _mm256_set1_epi16(1));
  }
  SPJIT_AVX2_INLINE static void fetch_ahead(const std::uint8_t* places,
                                            const std::uint8_t* values) {
    fetch_line(places);
    fetch_line(values);
  }
};

/// |w| times x with the sign of w.
template <std::int64_t Window>
struct SignedBytes : Avx2Sums {
  struct Step {
    Avx2Window<Window> places;
    Vector values;
    Vector magnitudes;
  };

  SPJIT_AVX2_INLINE static Step step(const std::uint8_t* places, const std::uint8_t* values) {
    const Vector w = values_of(values);
    return {Avx2Window<Window>::of(places), w, _mm256_abs_epi8(w)};
  }
  SPJIT_AVX2_INLINE static Vector add(const std::uint8_t* window, const Step& step, Vector sums) {
    const Vector x = _mm256_sign_epi8(step.places.fetch(window), step.values);
    return _mm256_add_epi32(sums, pairs(_mm256_maddubs_epi16(step.magnitudes, x)));
  }
};

/// w of even and of odd columns apart: a pair of 255 * 127 would saturate.
template <std::int64_t Window>
struct UnsignedBytes : Avx2Sums {
  struct Step {
    Avx2Window<Window> places;
    Vector even;
    Vector odd;
  };

  SPJIT_AVX2_INLINE static Step step(const std::uint8_t* places, const std::uint8_t* values) {
    const Vector w = values_of(values);
    const Vector low = _mm256_set1_epi16(0xFF);
    return {Avx2Window<Window>::of(places), _mm256_and_si256(w, low), _mm256_andnot_si256(low, w)};
  }
  SPJIT_AVX2_INLINE static Vector add(const std::uint8_t* window, const Step& step, Vector sums) {
    const Vector x = step.places.fetch(window);
    const Vector even = pairs(_mm256_maddubs_epi16(x, step.even));
    const Vector odd = pairs(_mm256_maddubs_epi16(x, step.odd));
    return _mm256_add_epi32(sums, _mm256_add_epi32(even, odd));
  }
};

/// An entry is a byte: its place in the low four bits, its value in the high ones. Two products of
/// an unsigned x stay within 2 * 255 * 8.
struct Avx2Nibbles : Avx2Sums {
  static constexpr std::ptrdiff_t k_value_bytes = 0;
  struct Step {
    Vector places;
    Vector values;
  };

  SPJIT_AVX2_INLINE static Step step(const std::uint8_t* slots, const std::uint8_t* /*values*/) {
    const Vector bytes = values_of(slots);
    const Vector low = _mm256_set1_epi8(0xF);
    const Vector of_nibble = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1));
    const Vector high = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), low);
    return {_mm256_and_si256(bytes, low), _mm256_shuffle_epi8(of_nibble, high)};
  }
  SPJIT_AVX2_INLINE static Vector add(const std::uint8_t* window, const Step& step, Vector sums) {
    const Vector x = _mm256_shuffle_epi8(Avx2Window<k_half_window>::table(window), step.places);
    return _mm256_add_epi32(sums, pairs(_mm256_maddubs_epi16(x, step.values)));
  }
  SPJIT_AVX2_INLINE static void fetch_ahead(const std::uint8_t* slots,
                                            const std::uint8_t* /*values*/) {
    fetch_line(slots);
  }
};

}  // namespace byte_loops
}  // namespace spjit

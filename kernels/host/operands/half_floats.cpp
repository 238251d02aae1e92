#include "kernels/host/operands/half_floats.hpp"

#include <bit>

#include "kernels/host/operands/simd.hpp"

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 says it of the registers that its own header leaves undefined (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
// And of the masks there, of what it has as macros without optimization.
#pragma GCC diagnostic ignored "-Wsign-conversion"
#endif

namespace spjit {
namespace {

constexpr std::uint32_t k_sign = 0x80000000U;
constexpr std::uint32_t k_quiet_nan = 0x7FC00000U;
constexpr std::uint32_t k_endless = 0x7F800000U;
/// To the nearest bf16 if 1 is added for an odd one.
constexpr std::uint32_t k_almost_half = 0x7FFF;

/// Each type for one element, and what the vectors of an instruction set do with it.
struct Bf16 {
  static float widened(std::uint16_t bits) {
    return std::bit_cast<float>(std::uint32_t{bits} << 16U);
  }
  static std::uint16_t rounded(float value) {
    auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & ~k_sign) > k_endless) bits = (bits & k_sign) | k_quiet_nan;
    bits += k_almost_half + ((bits >> 16U) & 1U);
    return static_cast<std::uint16_t>(bits >> 16U);
  }

  SPJIT_AVX512BW_INLINE static __m512 widened(__m256i halves) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
  SPJIT_AVX512BW_INLINE static __m256i rounded(__m512 values) {
    const __m512i bits = _mm512_castps_si512(values);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i more = _mm512_add_epi32(odd, _mm512_set1_epi32(k_almost_half));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_add_epi32(bits, more), 16));
  }
  SPJIT_AVX2_INLINE static __m256 widened(__m128i halves) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
  SPJIT_AVX2_INLINE static __m128i rounded(__m256 values) {
    const __m256i bits = _mm256_castps_si256(values);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i more = _mm256_add_epi32(odd, _mm256_set1_epi32(k_almost_half));
    const __m256i upper = _mm256_srli_epi32(_mm256_add_epi32(bits, more), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
  }
};

struct F16 {
  static float widened(std::uint16_t bits) {
    const std::uint32_t sign = std::uint32_t{bits} << 16U & k_sign;
    const std::uint32_t exponent = bits >> 10U & 0x1FU;
    const std::uint32_t fraction = bits & 0x3FFU;
    if (exponent == 0) {
      const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
      return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
    }
    if (exponent == 0x1F) {
      return std::bit_cast<float>(sign | (fraction == 0 ? k_endless : k_quiet_nan));
    }
    return std::bit_cast<float>(sign | (exponent + 127 - 15) << 23U | fraction << 13U);
  }
  static std::uint16_t rounded(float value) {
    constexpr std::uint32_t k_too_large = 0x477FF000U;     // 65520, half way to what would be next
    constexpr std::uint32_t k_least_normal = 0x38800000U;  // 2^-14
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits & k_sign) >> 16U;
    std::uint32_t magnitude = bits & ~k_sign;
    if (magnitude > k_endless) return static_cast<std::uint16_t>(sign | 0x7E00U);
    if (magnitude >= k_too_large) return static_cast<std::uint16_t>(sign | 0x7C00U);
    if (magnitude < k_least_normal) {
      // The sum has the distance of denormal numbers, 2^-24, between its neighbours.
      const float sum = std::bit_cast<float>(magnitude) + 0.5F;
      return static_cast<std::uint16_t>(
          sign | (std::bit_cast<std::uint32_t>(sum) - std::bit_cast<std::uint32_t>(0.5F)));
    }
    magnitude += 0xFFFU + (magnitude >> 13U & 1U) - (std::uint32_t{127 - 15} << 23U);
    return static_cast<std::uint16_t>(sign | magnitude >> 13U);
  }

  SPJIT_AVX512BW_INLINE static __m512 widened(__m256i halves) { return _mm512_cvtph_ps(halves); }
  SPJIT_AVX512BW_INLINE static __m256i rounded(__m512 values) {
    return _mm512_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  SPJIT_AVX2_INLINE static __m256 widened(__m128i halves) { return _mm256_cvtph_ps(halves); }
  SPJIT_AVX2_INLINE static __m128i rounded(__m256 values) {
    return _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
};

template <class Type>
void widen_generic(const std::uint16_t* from, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = Type::widened(from[i]);
}

template <class Type>
void round_generic(const float* from, std::int64_t count, std::uint16_t* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = Type::rounded(from[i]);
}

template <class Type>
SPJIT_AVX512BW_TARGET void widen_avx512(const std::uint16_t* from, std::int64_t count, float* to) {
  using Isa = Avx512Zmm;
  std::int64_t i = 0;
  for (; i + Isa::k_floats <= count; i += Isa::k_floats) {
    const auto* const at = reinterpret_cast<const __m256i*>(from + i);
    Isa::store(to + i, Type::widened(_mm256_loadu_si256(at)));
  }
  if (i == count) return;
  const Isa::Mask rest = Isa::mask(count - i);
  Isa::store(to + i, Type::widened(_mm256_maskz_loadu_epi16(rest, from + i)), rest);
}

/// Values whose NaN are quiet and have a sign alone.
SPJIT_AVX512BW_INLINE __m512 with_plain_nan(__m512 values) {
  const __mmask16 is_nan = _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
  const __m512i sign = _mm512_and_si512(_mm512_castps_si512(values),
                                        _mm512_set1_epi32(static_cast<std::int32_t>(k_sign)));
  const __m512i nan = _mm512_or_si512(sign, _mm512_set1_epi32(k_quiet_nan));
  return _mm512_mask_blend_ps(is_nan, values, _mm512_castsi512_ps(nan));
}

template <class Type>
SPJIT_AVX512BW_TARGET void round_avx512(const float* from, std::int64_t count, std::uint16_t* to) {
  using Isa = Avx512Zmm;
  std::int64_t i = 0;
  for (; i + Isa::k_floats <= count; i += Isa::k_floats) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i),
                        Type::rounded(with_plain_nan(Isa::load(from + i))));
  }
  if (i == count) return;
  const Isa::Mask rest = Isa::mask(count - i);
  _mm256_mask_storeu_epi16(to + i, rest, Type::rounded(with_plain_nan(Isa::load(from + i, rest))));
}

template <class Type>
SPJIT_AVX2_TARGET void widen_avx2(const std::uint16_t* from, std::int64_t count, float* to) {
  using Isa = Avx2Ymm;
  std::int64_t i = 0;
  for (; i + Isa::k_floats <= count; i += Isa::k_floats) {
    const auto* const at = reinterpret_cast<const __m128i*>(from + i);
    Isa::store(to + i, Type::widened(_mm_loadu_si128(at)));
  }
  for (; i < count; ++i) to[i] = Type::widened(from[i]);
}

SPJIT_AVX2_INLINE __m256 with_plain_nan(__m256 values) {
  const __m256 is_nan = _mm256_cmp_ps(values, values, _CMP_UNORD_Q);
  const __m256 sign = _mm256_and_ps(values, _mm256_set1_ps(-0.0F));
  const __m256 nan = _mm256_or_ps(sign, _mm256_set1_ps(std::bit_cast<float>(k_quiet_nan)));
  return _mm256_blendv_ps(values, nan, is_nan);
}

template <class Type>
SPJIT_AVX2_TARGET void round_avx2(const float* from, std::int64_t count, std::uint16_t* to) {
  using Isa = Avx2Ymm;
  std::int64_t i = 0;
  for (; i + Isa::k_floats <= count; i += Isa::k_floats) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     Type::rounded(with_plain_nan(Isa::load(from + i))));
  }
  for (; i < count; ++i) to[i] = Type::rounded(from[i]);
}

template <class Type>
WidenHalves widening(HostIsa isa) noexcept {
  if (isa == HostIsa::avx512) return widen_avx512<Type>;
  return isa == HostIsa::avx2 ? widen_avx2<Type> : widen_generic<Type>;
}

template <class Type>
RoundToHalves rounding(HostIsa isa) noexcept {
  if (isa == HostIsa::avx512) return round_avx512<Type>;
  return isa == HostIsa::avx2 ? round_avx2<Type> : round_generic<Type>;
}

}  // namespace

WidenHalves widen_of(DataType type, HostIsa isa) noexcept {
  return type == DataType::bf16 ? widening<Bf16>(isa) : widening<F16>(isa);
}

RoundToHalves round_of(DataType type, HostIsa isa) noexcept {
  return type == DataType::bf16 ? rounding<Bf16>(isa) : rounding<F16>(isa);
}

}  // namespace spjit

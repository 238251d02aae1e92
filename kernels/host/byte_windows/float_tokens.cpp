#include "kernels/host/byte_windows/float_tokens.hpp"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <span>

#include "base/arithmetic.hpp"
#include "kernels/host/operands/byte_quotients.hpp"
#include "kernels/host/operands/simd_ints.hpp"

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 says it of the registers that its own header leaves undefined (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace spjit {
namespace {

constexpr std::int64_t k_rows_at_once = 16;  // of a row-major B, which go to tokens together

/// What a quotient is kept within, and what its integer gets besides.
struct ByteSteering {
  QuotientBounds bounds;
  std::int32_t added;
};

/// Where integers go as bytes, each with a number added, in whole vectors.
struct ByteTarget {
  std::uint8_t* to;
  std::int32_t added;
};

/// Where they go as floats.
struct FloatTarget {
  float* to;
};

/// Scales and their reciprocals: one for all floats, or of each its own.
struct Divisors {
  const float* scales;
  const float* reciprocals;
};

/// Divisors of each float its own.
struct ScalesOfEach {
  std::array<float, k_most_quantized_tokens> scales;
  std::array<float, k_most_quantized_tokens> reciprocals;

  /// Those past `given` are 1.
  explicit ScalesOfEach(std::span<const float> given) {
    scales.fill(1);
    std::ranges::copy(given, scales.begin());
    std::ranges::transform(scales, reciprocals.begin(), reciprocal_of);
  }
  [[nodiscard]] Divisors divisors() const { return {scales.data(), reciprocals.data()}; }
};

namespace floats_avx512 {
#define SPJIT_FLOATS_TARGET SPJIT_AVX512_TARGET
#define SPJIT_FLOATS_INLINE SPJIT_AVX512_INLINE
#define SPJIT_QUOTIENTS_INLINE SPJIT_AVX512_INLINE

#include "kernels/host/byte_windows/float_tokens.inc"

#undef SPJIT_FLOATS_TARGET
#undef SPJIT_FLOATS_INLINE
#undef SPJIT_QUOTIENTS_INLINE
}  // namespace floats_avx512

namespace floats_avx2 {
#define SPJIT_FLOATS_TARGET SPJIT_AVX2_TARGET
#define SPJIT_FLOATS_INLINE SPJIT_AVX2_INLINE
#define SPJIT_QUOTIENTS_INLINE SPJIT_AVX2_INLINE

#include "kernels/host/byte_windows/float_tokens.inc"

#undef SPJIT_FLOATS_TARGET
#undef SPJIT_FLOATS_INLINE
#undef SPJIT_QUOTIENTS_INLINE
}  // namespace floats_avx2

SeenFloats look_at_floats(const float* from, std::int64_t count, HostIsa isa) {
  return isa == HostIsa::avx512 ? floats_avx512::look_at_floats<Avx512Ints>(from, count)
                                : floats_avx2::look_at_floats<Avx2Ints>(from, count);
}

/// Of columns of a row-major B.
void look_at_columns(const FloatsOfB& from, std::int64_t first, std::span<SeenFloats> seen,
                     HostIsa isa) {
  const std::int64_t width = isa == HostIsa::avx512 ? Avx512Zmm::k_floats : Avx2Ymm::k_floats;
  for (std::int64_t j = 0; j < std::ssize(seen); j += width) {
    const std::int64_t count = std::min(width, std::ssize(seen) - j);
    const float* const data = from.data + first + j;
    SeenFloats* const to = seen.data() + j;
    if (isa == HostIsa::avx512) {
      floats_avx512::look_at_columns<Avx512Ints>(data, from.ld, from.rows, count, to);
    } else {
      floats_avx2::look_at_columns<Avx2Ints>(data, from.ld, from.rows, count, to);
    }
  }
}

/// Of one scale for all, or of each float its own.
template <bool IsOfEach, class Target>
void round_quotients(std::span<const float> from, const Divisors& divisors,
                     const QuotientBounds& bounds, const Target& target, HostIsa isa) {
  const std::int64_t count = std::ssize(from);
  if (isa == HostIsa::avx512) {
    floats_avx512::round_quotients<Avx512Ints, IsOfEach>(from.data(), count, divisors, bounds,
                                                         target);
  } else {
    floats_avx2::round_quotients<Avx2Ints, IsOfEach>(from.data(), count, divisors, bounds, target);
  }
}

/// Sixteen rows at a time become bytes, which then go to the tokens.
void quantize_rows(const FloatsOfB& from, const ByteSteering& how, const Divisors& divisors,
                   const ByteTokens& to, HostIsa isa) {
  constexpr std::int64_t k_ld = k_most_quantized_tokens;
  std::array<std::uint8_t, k_rows_at_once * k_ld> block{};
  for (std::int64_t first = 0; first < from.rows; first += k_rows_at_once) {
    const std::int64_t rows = std::min(k_rows_at_once, from.rows - first);
    for (std::int64_t i = 0; i < rows; ++i) {
      const float* const row = from.data + (first + i) * from.ld + to.first;
      round_quotients<true>({row, to_size(to.count)}, divisors, how.bounds,
                            ByteTarget{block.data() + i * k_ld, how.added}, isa);
    }
    const ByteSource bytes{block.data(), Layout::row_major, k_ld, k_rows_at_once, k_ld};
    static_cast<void>(copy_tokens(bytes, {0, rows}, 0, {to.data + first, to.stride, 0, to.count}));
  }
}

}  // namespace

void SeenFloats::add(const SeenFloats& other) noexcept {
  most_signed = std::max(most_signed, other.most_signed);
  most_unsigned = std::max(most_unsigned, other.most_unsigned);
}

FloatRange SeenFloats::range() const noexcept {
  constexpr std::uint32_t k_sign = 0x8000'0000;
  constexpr std::uint32_t k_infinity = 0x7F80'0000;
  const bool has_negative = most_unsigned >= k_sign;
  const std::uint32_t of_negative = has_negative ? most_unsigned - k_sign : 0;
  return {.least = has_negative ? std::bit_cast<float>(most_unsigned) : 0.0F,
          .largest = std::bit_cast<float>(most_signed),
          .is_finite =
              std::bit_cast<std::uint32_t>(most_signed) < k_infinity && of_negative < k_infinity};
}

SeenFloats look_at_tokens(const FloatsOfB& from, std::int64_t first, std::int64_t count,
                          HostIsa isa) {
  SeenFloats all;
  if (from.has_tokens()) {
    for (std::int64_t j = 0; j < count; ++j) {
      all.add(look_at_floats(from.data + (first + j) * from.ld, from.rows, isa));
    }
    return all;
  }
  for (std::int64_t row = 0; row < from.rows; ++row) {
    all.add(look_at_floats(from.data + row * from.ld + first, count, isa));
  }
  return all;
}

void find_scales(const FloatsOfB& from, std::int64_t first, std::span<float> scales, HostIsa isa) {
  std::array<SeenFloats, k_most_quantized_tokens> seen;
  const std::span<SeenFloats> some = std::span(seen).first(scales.size());
  if (from.has_tokens()) {
    for (std::size_t j = 0; j < some.size(); ++j) {
      const float* const token = from.data + (first + static_cast<std::int64_t>(j)) * from.ld;
      some[j] = look_at_floats(token, from.rows, isa);
    }
  } else {
    look_at_columns(from, first, some, isa);
  }
  std::ranges::transform(some, scales.begin(), [](const SeenFloats& each) {
    return scale_of(each.range(), Quantization::token).scale;
  });
}

void quantize_tokens(const FloatsOfB& from, const BytesOfFloats& bytes, float* scales,
                     const ByteTokens& to, HostIsa isa) {
  const bool is_token = bytes.how == Quantization::token;
  const ByteSteering how{bounds_of(bytes.of_tensor, bytes.how),
                         bytes.of_tensor.zero_point + bytes.added};
  if (from.has_tokens()) {
    for (std::int64_t j = 0; j < to.count; ++j) {
      const float* const token = from.data + (to.first + j) * from.ld;
      float scale = bytes.of_tensor.scale;
      if (is_token) {
        scale = scale_of(look_at_floats(token, from.rows, isa).range(), bytes.how).scale;
        scales[j] = scale;
      }
      const float reciprocal = reciprocal_of(scale);
      round_quotients<false>({token, to_size(from.rows)}, {&scale, &reciprocal}, how.bounds,
                             ByteTarget{to.data + j * to.stride, how.added}, isa);
    }
    return;
  }
  std::array<float, k_most_quantized_tokens> of_tensor;
  of_tensor.fill(bytes.of_tensor.scale);
  const std::span<float> found(is_token ? scales : of_tensor.data(), to_size(to.count));
  if (is_token) find_scales(from, to.first, found, isa);
  quantize_rows(from, how, ScalesOfEach(found).divisors(), to, isa);
}

void round_tokens(const FloatsOfB& from, const TokenScales& how, const RowRange& lines,
                  const IntegerTokens& to, HostIsa isa) {
  const ScalesOfEach each(how.scales);
  const Divisors divisors = each.divisors();
  for (std::int64_t line = lines.begin; line < lines.end; ++line) {
    const FloatTarget integers{to.data + line * to.ld};
    if (from.has_tokens()) {
      const float* const token = from.data + (to.first + line) * from.ld;
      round_quotients<false>({token, to_size(from.rows)},
                             {divisors.scales + line, divisors.reciprocals + line}, how.bounds,
                             integers, isa);
    } else {
      const float* const row = from.data + line * from.ld + to.first;
      round_quotients<true>({row, to_size(to.count)}, divisors, how.bounds, integers, isa);
    }
  }
}

SPJIT_AVX2_TARGET void scale_sums(const ScaledSums& task) {
  for (std::int64_t row = 0; row < task.rows; ++row) {
    float* const sums = task.sums + row * task.ld;
    const float of_row = task.of_rows == nullptr ? 1 : task.of_rows[row];
    const __m256 factor = _mm256_set1_ps(of_row);
    std::int64_t j = 0;
    for (; j + 8 <= task.tokens; j += 8) {
      const __m256 unit = _mm256_mul_ps(_mm256_loadu_ps(task.of_tokens + j), factor);
      _mm256_storeu_ps(sums + j, _mm256_mul_ps(_mm256_loadu_ps(sums + j), unit));
    }
    for (; j + 4 <= task.tokens; j += 4) {
      const __m128 unit =
          _mm_mul_ps(_mm_loadu_ps(task.of_tokens + j), _mm256_castps256_ps128(factor));
      _mm_storeu_ps(sums + j, _mm_mul_ps(_mm_loadu_ps(sums + j), unit));
    }
    for (; j < task.tokens; ++j) sums[j] *= task.of_tokens[j] * of_row;
  }
}

SPJIT_AVX2_TARGET void fill_factors(const float* of_rows, float of_b, std::int64_t rows,
                                    float* factors) {
  if (of_rows == nullptr) {
    std::fill_n(factors, rows, of_b);
    return;
  }
  const __m256 factor = _mm256_set1_ps(of_b);
  std::int64_t i = 0;
  for (; i + 8 <= rows; i += 8) {
    _mm256_storeu_ps(factors + i, _mm256_mul_ps(_mm256_loadu_ps(of_rows + i), factor));
  }
  for (; i < rows; ++i) factors[i] = of_rows[i] * of_b;
}

}  // namespace spjit

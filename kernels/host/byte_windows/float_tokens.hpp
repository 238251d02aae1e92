#pragma once

/// @file
/// B of floats that becomes bytes, token after token, as windows are fetched from it.

#include <cstdint>
#include <span>

#include "base/row_ranges.hpp"
#include "kernels/host/byte_windows/byte_tokens.hpp"
#include "plan/quantization.hpp"
#include "spjit/layout.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// B `[k x n]`, borrowed.
struct FloatsOfB {
  const float* data = nullptr;
  Layout layout = Layout::row_major;  ///< or tokens_major
  std::int64_t ld = 0;                ///< floats between rows, or between tokens
  std::int64_t rows = 0;              ///< k
  std::int64_t n = 0;

  [[nodiscard]] bool has_tokens() const noexcept {
    return layout == Layout::tokens_major || (n == 1 && ld == 1);
  }
};

/// Bits of floats that were seen. As signed numbers, those above 0 ascend; as unsigned ones, those
/// below 0 descend and come last. Infinities and NaN are beyond all others.
struct SeenFloats {
  std::int32_t most_signed = 0;
  std::uint32_t most_unsigned = 0;

  void add(const SeenFloats& other) noexcept;
  [[nodiscard]] FloatRange range() const noexcept;
};

/// Looks at `count` columns of B from `first` on. Precondition: this CPU has `isa`, which is avx512
/// or avx2.
[[nodiscard]] SeenFloats look_at_tokens(const FloatsOfB& from, std::int64_t first,
                                        std::int64_t count, HostIsa isa);

/// How floats become bytes. Each has `added` added, so that a loop of unsigned bytes takes it.
struct BytesOfFloats {
  Quantization how = Quantization::token;  ///< or `tensor`
  std::int32_t added = 0;
  ByteScale of_tensor = {};
};

/// Columns of B from `to.first` on that are quantised, at most k_most_quantized_tokens. Of `token`
/// their scales are written, too, [to.count]. Tokens may be written up to the next multiple of 16
/// bytes. Precondition: this CPU has `isa`, which is avx512 or avx2.
void quantize_tokens(const FloatsOfB& from, const BytesOfFloats& bytes, float* scales,
                     const ByteTokens& to, HostIsa isa);
inline constexpr std::int64_t k_most_quantized_tokens = 64;

/// The scales of columns of B from `first` on, at most k_most_quantized_tokens, of
/// Quantization::token. Precondition as above.
void find_scales(const FloatsOfB& from, std::int64_t first, std::span<float> scales, HostIsa isa);

/// Divisors of floats, and bounds of their quotients.
struct TokenScales {
  QuotientBounds bounds;
  std::span<const float> scales;  ///< of each token, at most k_most_quantized_tokens
};

/// Some lines of B, which are rows, or of a B that has tokens those from `to.first` on: their
/// floats become what quantize_tokens() makes of them, less the zero point. Precondition as above.
void round_tokens(const FloatsOfB& from, const TokenScales& how, const RowRange& lines,
                  const IntegerTokens& to, HostIsa isa);

/// Sums of some rows and tokens, and what they are multiplied with.
struct ScaledSums {
  float* sums = nullptr;  ///< [rows x tokens]
  std::int64_t ld = 0;    ///< floats between rows
  std::int64_t rows = 0;
  std::int64_t tokens = 0;
  const float* of_rows = nullptr;  ///< [rows]; null: 1
  const float* of_tokens = nullptr;
};

/// Multiplies each sum with the rounded product of its row's and its token's number. Precondition:
/// this CPU has AVX2.
void scale_sums(const ScaledSums& task);

/// factors[i] = of_rows[i] * of_b, or of_b where there are none. Precondition: this
/// CPU has AVX2.
void fill_factors(const float* of_rows, float of_b, std::int64_t rows, float* factors);

}  // namespace spjit

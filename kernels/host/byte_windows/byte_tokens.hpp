#pragma once

/// @file
/// B of bytes, token after token, as windows are fetched from it.

#include <cstdint>

#include "base/row_ranges.hpp"
#include "spjit/layout.hpp"

namespace spjit {

/// B `[k x n]`, borrowed.
struct ByteSource {
  const std::uint8_t* data = nullptr;
  Layout layout = Layout::row_major;  ///< or tokens_major
  std::int64_t ld = 0;                ///< bytes between rows, or between tokens
  std::int64_t rows = 0;              ///< k
  std::int64_t n = 0;

  [[nodiscard]] bool has_tokens() const noexcept {
    return layout == Layout::tokens_major || (n == 1 && ld == 1);
  }
};

/// Columns of B, each together.
struct ByteTokens {
  std::uint8_t* data = nullptr;
  std::int64_t stride = 0;  ///< bytes between tokens, >= k
  std::int64_t first = 0;   ///< column of B that is the first token
  std::int64_t count = 0;
};

/// Columns of B as floats that are integers, in rows or in tokens, as B is.
struct IntegerTokens {
  float* data = nullptr;
  std::int64_t ld = 0;     ///< floats between rows, or between tokens; of whole vectors
  std::int64_t first = 0;  ///< column of B that is the first
  std::int64_t count = 0;
};

/// Added to a byte of i8, it makes an unsigned one: the highest bit changes.
inline constexpr std::uint8_t k_byte_bias = 0x80;

/// Copies some rows of B, each byte with the bits of `flipped` changed. Whether one of them was
/// 0x80. Reads bytes between those that it copies, none outside of B. Precondition: this CPU has
/// AVX2.
[[nodiscard]] bool copy_tokens(const ByteSource& from, const RowRange& rows, std::uint8_t flipped,
                               const ByteTokens& to);

/// Adds k_byte_bias to bytes of i8. Precondition: this CPU has AVX2.
void bias_tokens(const ByteTokens& tokens, std::int64_t rows);

/// Some lines of B, which are rows, or of a B that has tokens those from `to.first` on, as floats
/// less `zero_point`. Precondition: this CPU has AVX2.
void widen_tokens(const ByteSource& from, bool is_signed, std::int32_t zero_point,
                  const RowRange& lines, const IntegerTokens& to);

}  // namespace spjit

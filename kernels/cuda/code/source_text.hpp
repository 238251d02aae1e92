#pragma once

/// @file
/// Appending to one string, fast: the emitters write tens of megabytes of text.

#include <bit>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace spjit {

/// A string that grows by text and numbers; nothing else can get into it.
class SourceText {
 public:
  explicit SourceText(std::int64_t expected_bytes) {
    text_.reserve(static_cast<std::size_t>(expected_bytes));
  }

  SourceText& operator<<(std::string_view text) {
    text_ += text;
    return *this;
  }
  SourceText& operator<<(std::int64_t value) {
    char digits[24];
    const std::to_chars_result end = std::to_chars(digits, digits + sizeof digits, value);
    text_.append(digits, static_cast<std::size_t>(end.ptr - digits));
    return *this;
  }

  /// Eight hexadecimal digits: the bits of a float, "3FC00000".
  SourceText& hex(std::uint32_t bits) {
    constexpr const char* k_digits = "0123456789ABCDEF";
    char digits[8];
    for (int i = 7; i >= 0; --i, bits >>= 4) digits[i] = k_digits[bits & 15];
    text_.append(digits, sizeof digits);
    return *this;
  }

  [[nodiscard]] std::string take() && { return std::move(text_); }

 private:
  std::string text_;
};

/// The value as CUDA C++, exact: "0x1.8p+0f", "-0x0p+0f", and for NaN and infinities, which have no
/// literal, "__int_as_float(0x7FC00001)".
inline SourceText& append_cuda_literal(SourceText& text, float value) {
  if (!std::isfinite(value)) {
    text << "__int_as_float(0x";
    return text.hex(std::bit_cast<std::uint32_t>(value)) << ")";
  }
  char digits[32];
  const std::to_chars_result end =
      std::to_chars(digits, digits + sizeof digits, std::fabs(value), std::chars_format::hex);
  return text << (std::signbit(value) ? "-0x" : "0x")
              << std::string_view(digits, static_cast<std::size_t>(end.ptr - digits)) << "f";
}

/// The value as PTX, exact: "0f3FC00000".
inline SourceText& append_ptx_literal(SourceText& text, float value) {
  text << "0f";
  return text.hex(std::bit_cast<std::uint32_t>(value));
}

}  // namespace spjit

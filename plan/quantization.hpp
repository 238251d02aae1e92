#pragma once

/// @file
/// Quantization of B, and of a C of bytes, number by number, as spjit/numerics.hpp defines it.

#include <cstdint>

#include "spjit/arguments.hpp"
#include "spjit/data_type.hpp"
#include "spjit/numerics.hpp"

namespace spjit {

[[nodiscard]] constexpr bool is_quantized(const Numerics& numerics) noexcept {
  return numerics.quantization != Quantization::none;
}
/// Whether B is of floats that become bytes.
[[nodiscard]] constexpr bool quantizes_floats(const Numerics& numerics) noexcept {
  return numerics.quantization == Quantization::tensor ||
         numerics.quantization == Quantization::token;
}
/// The type of the numbers that sums are of.
[[nodiscard]] constexpr DataType summed_type_of_b(const Numerics& numerics) noexcept {
  if (numerics.quantization == Quantization::tensor) return DataType::u8;
  return numerics.quantization == Quantization::token ? DataType::i8 : numerics.b;
}

/// Whether elements have a scale and a zero point where they are C.
[[nodiscard]] constexpr bool is_byte(DataType type) noexcept {
  return type == DataType::i8 || type == DataType::u8;
}

/// Bytes stand for scale * (byte - zero_point).
struct ByteScale {
  float scale = 1;
  std::int32_t zero_point = 0;

  friend bool operator==(const ByteScale&, const ByteScale&) = default;
};

/// Numbers that are quantised together.
struct FloatRange {
  float least = 0;        ///< of the numbers and 0
  float largest = 0;      ///< of the numbers and 0
  bool is_finite = true;  ///< all of them are; else the others say nothing

  void add(float value) noexcept;
};

/// The scale and the zero point of numbers; of some that are not finite NaN and 0. Precondition:
/// `tensor` or `token`.
[[nodiscard]] ByteScale scale_of(const FloatRange& range, Quantization quantization) noexcept;

/// The numbers between which a quotient is kept before it is rounded.
struct QuotientBounds {
  float low;
  float high;
};
/// Precondition: `tensor` or `token`.
[[nodiscard]] QuotientBounds bounds_of(const ByteScale& scale, Quantization quantization) noexcept;

/// The bounds of bytes of the type.
[[nodiscard]] QuotientBounds bounds_of(const ByteScale& scale, DataType type) noexcept;

/// The scale and the zero point of C.
[[nodiscard]] ByteScale scale_of_c(const Arguments& arguments) noexcept;
/// The byte of C for a number. Preconditions: the default rounding mode; is_byte(type).
[[nodiscard]] std::int32_t quantized(float value, const ByteScale& scale, DataType type) noexcept;
/// The number that a byte stands for, rounded to fp32.
[[nodiscard]] inline float number_of(std::int32_t byte, const ByteScale& scale) noexcept {
  return static_cast<float>(byte - scale.zero_point) * scale.scale;
}

/// The byte of a number. Preconditions: the default rounding mode; `tensor` or `token`.
[[nodiscard]] std::int32_t quantized(float value, const ByteScale& scale,
                                     Quantization quantization) noexcept;

}  // namespace spjit

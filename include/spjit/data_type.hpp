#pragma once

/// @file
/// Types of the elements of A, B and C.

#include <cstdint>
#include <string_view>

#include "spjit/export.hpp"

namespace spjit {

/// The type of an element. Integers are two's complement.
enum class DataType : std::uint8_t {
  f32,   ///< IEEE 754 binary32
  bf16,  ///< the upper half of an f32
  f16,   ///< IEEE 754 binary16
  i32,
  i8,
  u8,
  i4,  ///< two in a byte, the first in its low half
};

/// Properties of a type.
struct DataTypeInfo {
  std::string_view name;  ///< "bf16"
  int bits;               ///< of an element
  bool is_integer;
  /// Relative error of one rounding to nearest: 2^-24 of f32, 2^-8 of bf16, 2^-11 of f16; 0 of
  /// integers.
  double unit_roundoff;
  double lowest;  ///< the finite number that is furthest below zero
  double largest;
};

/// Throws InvalidArgument for a value that is no DataType.
[[nodiscard]] SPJIT_EXPORT const DataTypeInfo& info_of(DataType type);

/// Bytes of `count` elements that lie together. Throws InvalidArgument if `count` is negative or
/// the bytes pass 2^63 - 1.
[[nodiscard]] SPJIT_EXPORT std::int64_t bytes_of(DataType type, std::int64_t count = 1);

/// "f32", "bf16", "f16", "i32", "i8", "u8", "i4". Throws InvalidArgument that lists them.
[[nodiscard]] SPJIT_EXPORT DataType parse_data_type(std::string_view name);
/// "?" for a value that is no DataType.
[[nodiscard]] SPJIT_EXPORT std::string_view to_string(DataType type);

}  // namespace spjit

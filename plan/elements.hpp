#pragma once

/// @file
/// Elements of every type as double, which holds all of them exactly.

#include <cstdint>
#include <cstring>

#include "base/arithmetic.hpp"
#include "matrix/half_float.hpp"
#include "spjit/data_type.hpp"

namespace spjit {

/// The number of the type that is nearest to `value`; of two, the one whose last bit is 0. Beyond
/// the range a float becomes an infinity, and an integer the last of its side. NaN becomes NaN, as
/// an integer 0, and -0 of an integer +0.
[[nodiscard]] double rounded_to(DataType type, double value);

/// Whether the type has the number, or NaN, if it is one. -0 is 0.
[[nodiscard]] bool is_exact_in(DataType type, float value);

/// The i-th element of an array, which need not be aligned. Precondition: whole bytes, no i4.
[[nodiscard]] inline double load_element(DataType type, const void* data, std::int64_t i) {
  const auto read = [&](auto number) {
    std::memcpy(&number, static_cast<const std::byte*>(data) + i * std::int64_t{sizeof(number)},
                sizeof(number));
    return number;
  };
  switch (type) {
    case DataType::f32:
      return read(0.0F);
    case DataType::bf16:
      return to_float(Bfloat{read(std::uint16_t{})});
    case DataType::f16:
      return to_float(Half{read(std::uint16_t{})});
    case DataType::i32:
      return read(std::int32_t{});
    case DataType::i8:
      return read(std::int8_t{});
    case DataType::u8:
      return read(std::uint8_t{});
    case DataType::i4:
      break;
  }
  return 0;
}

/// Writes rounded_to() the type. A NaN of a float type is a quiet one. Precondition as above.
void store_element(DataType type, void* data, std::int64_t i, double value);

}  // namespace spjit

#include "plan/elements.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>

namespace spjit {
namespace {

/// A binary floating-point format.
struct Format {
  int precision;       ///< bits of the significand, the hidden one included
  int least_exponent;  ///< of normal numbers
};

constexpr Format format_of(DataType type) noexcept {
  return type == DataType::f16 ? Format{11, -14} : Format{8, -126};
}

/// To bf16 or f16.
double rounded_float(DataType type, double value) {
  if (!std::isfinite(value) || value == 0) return value;
  const Format format = format_of(type);
  // The distance of two numbers of the format near `value`: a power of two, so that dividing by it
  // and multiplying with it are exact.
  const int exponent = std::max(std::ilogb(value), format.least_exponent);
  const double unit = std::ldexp(1.0, exponent - format.precision + 1);
  const double rounded = std::nearbyint(value / unit) * unit;
  if (std::abs(rounded) <= info_of(type).largest) return rounded;
  return std::copysign(std::numeric_limits<double>::infinity(), value);
}

/// Of a number of the format.
std::uint16_t half_bits(double value) {
  const std::uint32_t sign = std::signbit(value) ? 0x8000U : 0U;
  const double magnitude = std::abs(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7E00U);
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | 0x7C00U);
  // Subnormal numbers are whole units of 2^-24.
  if (magnitude < 0x1p-14) {
    return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(magnitude * 0x1p24));
  }
  const int exponent = std::ilogb(magnitude);
  const auto significand = static_cast<std::uint32_t>(std::ldexp(magnitude, 10 - exponent));
  // The hidden bit of the significand adds 1 to the exponent.
  const std::uint32_t magnitude_bits =
      (static_cast<std::uint32_t>(exponent + 14) << 10U) + significand;
  return static_cast<std::uint16_t>(sign | magnitude_bits);
}

std::uint16_t bfloat_bits(double value) {
  if (std::isnan(value)) {
    return static_cast<std::uint16_t>((std::signbit(value) ? 0x8000U : 0U) | 0x7FC0U);
  }
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16U);
}

}  // namespace

double rounded_to(DataType type, double value) {
  if (type == DataType::f32) return static_cast<double>(static_cast<float>(value));
  const DataTypeInfo& info = info_of(type);
  if (!info.is_integer) return rounded_float(type, value);
  if (std::isnan(value)) return 0;
  return std::clamp(std::nearbyint(value), info.lowest, info.largest) + 0.0;  // no -0
}

bool is_exact_in(DataType type, float value) {
  if (type == DataType::f32) return true;
  const auto wide = static_cast<double>(value);
  if (std::isnan(wide)) return !info_of(type).is_integer;
  return rounded_to(type, wide) == wide;
}

void store_element(DataType type, void* data, std::int64_t i, double value) {
  const double number = rounded_to(type, value);
  const auto write = [&](auto element) {
    std::memcpy(static_cast<std::byte*>(data) + i * std::int64_t{sizeof(element)}, &element,
                sizeof(element));
  };
  switch (type) {
    case DataType::f32:
      return write(static_cast<float>(number));
    case DataType::bf16:
      return write(bfloat_bits(number));
    case DataType::f16:
      return write(half_bits(number));
    case DataType::i32:
      return write(static_cast<std::int32_t>(number));
    case DataType::i8:
      return write(static_cast<std::int8_t>(number));
    case DataType::u8:
      return write(static_cast<std::uint8_t>(number));
    case DataType::i4:
      break;
  }
}

}  // namespace spjit

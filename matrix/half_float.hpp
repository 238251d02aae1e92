#pragma once

/// @file
/// 16-bit floats, which C++20 has no types for, as fp32, exactly.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace spjit {

/// IEEE binary16.
struct Half {
  std::uint16_t bits;
};

/// The upper half of an fp32.
struct Bfloat {
  std::uint16_t bits;
};

/// The value as a float; a NaN keeps only its sign.
[[nodiscard]] inline float to_float(Half half) {
  const bool negative = (half.bits & 0x8000U) != 0;
  const int exponent = (half.bits >> 10U) & 0x1F;
  const int fraction = half.bits & 0x3FF;
  float magnitude = 0;
  if (exponent == 31) {
    magnitude = fraction == 0 ? std::numeric_limits<float>::infinity()
                              : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    magnitude = std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  }
  return negative ? -magnitude : magnitude;
}

[[nodiscard]] inline float to_float(Bfloat number) noexcept {
  return std::bit_cast<float>(std::uint32_t{number.bits} << 16U);
}

}  // namespace spjit

#pragma once

/// @file
/// Quantization of B and of C by their definitions, independent of the library's.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "spjit/numerics.hpp"

namespace spjit::testing_support {

/// What bytes stand for: scale * (byte - zero).
struct UnitOfBytes {
  float scale = 1;
  int zero = 0;
};

/// Half to even by hand.
[[nodiscard]] inline double whole_of(double value) {
  const double down = std::floor(value);
  const double rest = value - down;
  const bool is_up = rest > 0.5 || (rest == 0.5 && std::fmod(down, 2) != 0);
  return down + (is_up ? 1 : 0);
}

/// Of numbers that are quantised together.
[[nodiscard]] inline UnitOfBytes unit_of_bytes(const std::vector<float>& numbers,
                                               Quantization quantization) {
  float least = 0;
  float largest = 0;
  for (const float number : numbers) {
    if (!std::isfinite(number)) return {std::numeric_limits<float>::quiet_NaN(), 0};
    least = std::min(least, number);
    largest = std::max(largest, number);
  }
  if (quantization == Quantization::token) {
    const float scale = std::max(-least, largest) / 127;
    return {scale == 0 ? 1 : scale, 0};
  }
  if (least == largest) return {};
  const float scale = (largest - least) / 255;
  if (scale == 0) return {0, 255};
  const float zero = 0 - least / scale;
  return {scale, static_cast<int>(whole_of(std::min(std::max(zero, 0.0F), 255.0F)))};
}

/// How much the byte of a number is more than the zero point.
[[nodiscard]] inline double byte_difference(float number, const UnitOfBytes& unit,
                                            Quantization quantization) {
  const bool is_token = quantization == Quantization::token;
  const double low = is_token ? -127 : -unit.zero;
  const double high = is_token ? 127 : 255 - unit.zero;
  const auto quotient = static_cast<double>(number / unit.scale);
  if (!(quotient > low)) return low;  // NaN, too
  return quotient < high ? whole_of(quotient) : high;
}

/// The byte of C for a number; the least one for NaN.
[[nodiscard]] inline double byte_of_c(float number, const UnitOfBytes& unit, DataType type) {
  const double least = type == DataType::i8 ? -128 : 0;
  const double most = least + 255;
  const auto quotient = static_cast<double>(number / unit.scale);
  if (!(quotient > least - unit.zero)) return least;
  return quotient < most - unit.zero ? whole_of(quotient) + unit.zero : most;
}

/// What a byte of C stands for.
[[nodiscard]] inline float number_of_c(double byte, const UnitOfBytes& unit) {
  return static_cast<float>(byte - unit.zero) * unit.scale;
}

}  // namespace spjit::testing_support

#pragma once

/// @file
/// Small arithmetic that many files need.

#include <cstdint>

namespace spjit {

/// a / b rounded up; a >= 0, b > 0.
[[nodiscard]] constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) noexcept {
  return (a + b - 1) / b;
}

/// Exact up to 2^53.
[[nodiscard]] constexpr double as_double(std::int64_t value) noexcept {
  return static_cast<double>(value);
}

}  // namespace spjit

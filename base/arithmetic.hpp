#pragma once

/// @file
/// Small arithmetic that many files need.

#include <cstddef>
#include <cstdint>

namespace spjit {

/// a / b rounded up; a >= 0, b > 0.
[[nodiscard]] constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) noexcept {
  return (a + b - 1) / b;
}

/// a rounded up to a multiple of b; a >= 0, b > 0.
[[nodiscard]] constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) noexcept {
  return ceil_div(a, b) * b;
}

/// As sizes and indices of containers are; value >= 0.
[[nodiscard]] constexpr std::size_t to_size(std::int64_t value) noexcept {
  return static_cast<std::size_t>(value);
}

/// Exact up to 2^53.
[[nodiscard]] constexpr double as_double(std::int64_t value) noexcept {
  return static_cast<double>(value);
}

}  // namespace spjit

#pragma once

/// @file
/// Small arithmetic that many files need, and integer arithmetic that says so when a result does
/// not fit. The latter is for sizes, offsets and strides that grow with a matrix, with n or with a
/// leading dimension.
///
/// `what` is the quantity in words, "floats of workspace"; what is checked throws InvalidArgument,
/// in one line.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

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

/// Throws InvalidArgument: "WHAT: VALUE does not fit BITS bits".
[[noreturn]] void throw_cast_overflow(std::string_view what, std::int64_t value, int bits);
/// Throws InvalidArgument: "WHAT: LEFT OPERATOR RIGHT does not fit 63 bits".
[[noreturn]] void throw_overflow(std::string_view what, std::int64_t left, char operation,
                                 std::int64_t right);

/// `value` in a narrower type.
template <std::integral To>
[[nodiscard]] constexpr To checked_cast(std::int64_t value, std::string_view what) {
  if (!std::in_range<To>(value)) {
    throw_cast_overflow(what, value, std::numeric_limits<To>::digits);
  }
  return static_cast<To>(value);
}

[[nodiscard]] constexpr std::int64_t checked_multiply(std::int64_t left, std::int64_t right,
                                                      std::string_view what) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(left, right, &product)) throw_overflow(what, left, '*', right);
  return product;
}

[[nodiscard]] constexpr std::int64_t checked_add(std::int64_t left, std::int64_t right,
                                                 std::string_view what) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(left, right, &sum)) throw_overflow(what, left, '+', right);
  return sum;
}

}  // namespace spjit

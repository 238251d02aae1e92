#pragma once

/// @file
/// Integer arithmetic that says so when a result does not fit. For sizes, offsets and strides that
/// grow with a matrix, with n or with a leading dimension.
///
/// `what` is the quantity in words, "floats of workspace"; all throw InvalidArgument, in one line.

#include <concepts>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

namespace spjit {

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

#pragma once

/// @file
/// Elements of every type by their definition, independent of the library's: what is rounded is
/// looked up in the list of all numbers of the type.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "spjit/data_type.hpp"
#include "spjit/operand.hpp"

namespace spjit::testing_support {

/// Sizes of an IEEE-like format of 16 bits.
struct NarrowFormat {
  int exponent_bits;
  int fraction_bits;
};

[[nodiscard]] inline NarrowFormat narrow_format(DataType type) {
  return type == DataType::bf16 ? NarrowFormat{8, 7} : NarrowFormat{5, 10};
}

/// The number that the 16 bits of a bf16 or f16 mean.
[[nodiscard]] inline double narrow_value(DataType type, std::uint32_t bits) {
  const NarrowFormat format = narrow_format(type);
  const int most_exponent = (1 << format.exponent_bits) - 1;
  const int bias = most_exponent / 2;
  const auto fraction = static_cast<int>(bits & ((1U << format.fraction_bits) - 1));
  const auto exponent = static_cast<int>(bits >> format.fraction_bits) & most_exponent;
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  if (exponent == most_exponent) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - format.fraction_bits);
  return sign *
         std::ldexp(fraction + (1 << format.fraction_bits), exponent - bias - format.fraction_bits);
}

/// The bits of the number of bf16 or f16 that is nearest to `value`, which is no NaN; of two the
/// even one.
[[nodiscard]] inline std::uint32_t nearest_narrow(DataType type, double value) {
  const NarrowFormat format = narrow_format(type);
  const std::uint32_t infinity = ((1U << format.exponent_bits) - 1) << format.fraction_bits;
  const std::uint32_t sign = std::signbit(value) ? 0x8000U : 0U;
  const double magnitude = std::abs(value);
  // Where the infinity is, there would be the next number if the exponent went on.
  const auto at = [&](std::uint32_t bits) {
    return bits == infinity ? 2 * narrow_value(type, infinity - (1U << format.fraction_bits))
                            : narrow_value(type, bits);
  };
  std::uint32_t low = 0;
  std::uint32_t high = infinity;
  if (magnitude >= at(infinity)) return sign | infinity;
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (at(middle) <= magnitude ? low : high) = middle;
  }
  const double below = magnitude - at(low);
  const double above = at(high) - magnitude;
  const bool is_low = below < above || (below == above && low % 2 == 0);
  return sign | (is_low ? low : high);
}

/// Elements of one type in memory.
class TypedArray {
 public:
  TypedArray(DataType type, std::size_t count)
      : type_(type),
        size_(static_cast<std::size_t>(bytes_of(type))),
        count_(count),
        bytes_(count * size_) {}

  [[nodiscard]] DataType type() const noexcept { return type_; }
  [[nodiscard]] std::byte* data() noexcept { return bytes_.data(); }
  [[nodiscard]] const std::byte* data() const noexcept { return bytes_.data(); }
  [[nodiscard]] Operand operand(const Strides& strides = {}) noexcept {
    return {bytes_.data(), type_, strides};
  }

  [[nodiscard]] double at(std::size_t i) const {
    switch (type_) {
      case DataType::f32:
        return read<float>(i);
      case DataType::i32:
        return read<std::int32_t>(i);
      case DataType::i8:
        return read<std::int8_t>(i);
      case DataType::u8:
        return read<std::uint8_t>(i);
      default:
        return narrow_value(type_, read<std::uint16_t>(i));
    }
  }

  /// Rounds to nearest even; integers saturate.
  void set(std::size_t i, double value) {
    const DataTypeInfo& info = info_of(type_);
    if (type_ == DataType::f32) return write(i, static_cast<float>(value));
    if (!info.is_integer) {
      const std::uint32_t not_a_number = type_ == DataType::bf16 ? 0x7FC0U : 0x7E00U;
      const std::uint32_t bits = std::isnan(value) ? not_a_number : nearest_narrow(type_, value);
      return write(i, static_cast<std::uint16_t>(bits));
    }
    // Half to even by hand.
    const double down = std::floor(value);
    const double rest = value - down;
    const bool is_up = rest > 0.5 || (rest == 0.5 && std::fmod(down, 2) != 0);
    const double whole = std::isnan(value) ? 0 : down + (is_up ? 1 : 0);
    const auto bits =
        static_cast<std::int64_t>(std::min(std::max(whole, info.lowest), info.largest));
    std::memcpy(bytes_.data() + i * size_, &bits, size_);  // two's complement, little-endian
  }

  [[nodiscard]] std::vector<std::byte> element(std::size_t i) const {
    const std::byte* const begin = bytes_.data() + i * size_;
    return {begin, begin + size_};
  }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }

 private:
  template <class T>
  [[nodiscard]] T read(std::size_t i) const {
    T value{};
    std::memcpy(&value, bytes_.data() + i * sizeof(T), sizeof(T));
    return value;
  }
  template <class T>
  void write(std::size_t i, T value) {
    std::memcpy(bytes_.data() + i * sizeof(T), &value, sizeof(T));
  }

  DataType type_;
  std::size_t size_;
  std::size_t count_;
  std::vector<std::byte> bytes_;
};

}  // namespace spjit::testing_support

#pragma once

/// @file
/// A's values as a loop holds them: in few bytes, which it widens where it loads them.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/float_buffer.hpp"
#include "spjit/data_type.hpp"

namespace spjit {

/// The types that loops load.
enum class HeldType : std::uint8_t { f32, bf16, f16, i8 };

/// The one with the fewest bytes that has all values of A's type.
[[nodiscard]] constexpr HeldType held_type_of(DataType type) noexcept {
  switch (type) {
    case DataType::bf16:
    case DataType::u8:  // eight bits are a bf16's precision
      return HeldType::bf16;
    case DataType::f16:
      return HeldType::f16;
    case DataType::i8:
    case DataType::i4:
      return HeldType::i8;
    default:
      return HeldType::f32;
  }
}

[[nodiscard]] constexpr std::int64_t bytes_of(HeldType type) noexcept {
  return type == HeldType::f32 ? 4 : type == HeldType::i8 ? 1 : 2;
}

/// Values that begin at a cache line.
class HeldValues {
 public:
  HeldValues() = default;
  /// Takes floats that the type has.
  HeldValues(HeldType type, FloatBuffer values);

  [[nodiscard]] HeldType type() const noexcept { return type_; }
  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }
  /// From a value on.
  [[nodiscard]] const std::byte* from(std::size_t value) const noexcept {
    return reinterpret_cast<const std::byte*>(memory_.data()) +
           static_cast<std::int64_t>(value) * bytes_of(type_);
  }

 private:
  HeldType type_ = HeldType::f32;
  std::int64_t bytes_ = 0;
  FloatBuffer memory_;
};

}  // namespace spjit

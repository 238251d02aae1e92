#pragma once

/// @file
/// Elements of bf16 and f16 as floats, and floats rounded to them.

#include <cstdint>

#include "spjit/data_type.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// Whether elements of the type are floats of 16 bits.
[[nodiscard]] constexpr bool is_half(DataType type) noexcept {
  return type == DataType::bf16 || type == DataType::f16;
}

/// Elements that follow one another as floats, exactly. A NaN stays one.
using WidenHalves = void (*)(const std::uint16_t* from, std::int64_t count, float* to);
/// Floats rounded to nearest, of two to the even one; beyond the range infinity. A NaN becomes the
/// quiet one of its sign.
using RoundToHalves = void (*)(const float* from, std::int64_t count, std::uint16_t* to);

/// The functions for bits of bf16 or f16. Precondition: this CPU has `isa`.
[[nodiscard]] WidenHalves widen_of(DataType type, HostIsa isa) noexcept;
[[nodiscard]] RoundToHalves round_of(DataType type, HostIsa isa) noexcept;

}  // namespace spjit

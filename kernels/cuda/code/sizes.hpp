#pragma once

/// @file
/// Sizes that emitters and the prior count with.

#include <bit>
#include <cstdint>

namespace spjit {

inline constexpr std::int64_t k_float_bytes = sizeof(float);

/// By how many bits a division by `power`, a power of two, shifts.
[[nodiscard]] constexpr std::int64_t shift_of(std::int64_t power) noexcept {
  return std::countr_zero(static_cast<std::uint64_t>(power));
}

}  // namespace spjit

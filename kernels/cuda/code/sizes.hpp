#pragma once

/// @file
/// Sizes that emitters and the prior count with.

#include <array>
#include <bit>
#include <cstdint>
#include <span>

namespace spjit {

inline constexpr std::int64_t k_float_bytes = sizeof(float);

/// By how many bits a division by `power`, a power of two, shifts.
[[nodiscard]] constexpr std::int64_t shift_of(std::int64_t power) noexcept {
  return std::countr_zero(static_cast<std::uint64_t>(power));
}

/// Widths of vectors that code loads and stores, widest first: 4, 2 and 1, up to `most`, a power of
/// two.
[[nodiscard]] inline std::span<const std::int64_t> widths_up_to(std::int64_t most) noexcept {
  static constexpr std::array<std::int64_t, 3> k_widths = {4, 2, 1};
  return std::span(k_widths).subspan(most >= 4 ? 0 : most == 2 ? 1 : 2);
}

}  // namespace spjit

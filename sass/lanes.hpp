#pragma once

#include <array>
#include <cstdint>

namespace spjit::sass {

inline constexpr unsigned k_lanes = 32;
inline constexpr std::uint32_t k_all_lanes = 0xffffffff;

/// A bit for each lane of a warp.
using LaneMask = std::uint32_t;

/// A register of all lanes, so that one instruction is a loop over an array.
struct alignas(64) Lanes {
  std::array<std::uint32_t, k_lanes> values;

  std::uint32_t& operator[](std::size_t lane) noexcept { return values[lane]; }
  const std::uint32_t& operator[](std::size_t lane) const noexcept { return values[lane]; }
};

/// Calls `use(lane)` for each lane of the mask, in ascending order.
template <class Use>
void for_each_lane(LaneMask mask, Use&& use) {
  for (; mask != 0; mask &= mask - 1) use(static_cast<unsigned>(__builtin_ctz(mask)));
}

}  // namespace spjit::sass

#pragma once

/// @file
/// When a product with A's zeros has the bits of one without them.
///
/// A sum begins at +0 and takes the products of a row in ascending column, as KernelPlan states it,
/// and those with the zeros as well. The bits are the same all the same, if no such product is NaN
/// and no sum is ever -0, which a product with a zero would turn into +0:
/// - Every value of B is finite.
/// - Products of entries of A with nonzero values of B are multiples of 2^-149, the smallest
///   denormal. Then so is each sum before it is rounded; none rounds to zero, so none to -0; and
///   one that cancels is +0. least_b_for() is what a value of B must reach for that.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

namespace spjit {

/// The bits of a magnitude: they order as magnitudes do, with infinity and then NaN last.
[[nodiscard]] constexpr std::uint32_t magnitude_bits(float value) noexcept {
  return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU;
}

/// The magnitude bits of infinity; every finite value has less.
inline constexpr std::uint32_t k_endless_bits =
    std::bit_cast<std::uint32_t>(std::numeric_limits<float>::infinity());

/// The smallest magnitude of values other than zero and NaN; infinity: there is none.
[[nodiscard]] inline float least_magnitude(std::span<const float> values) noexcept {
  std::uint32_t least = k_endless_bits;
  for (const float value : values) {
    const std::uint32_t bits = magnitude_bits(value);
    if (bits != 0) least = std::min(least, bits);
  }
  return std::bit_cast<float>(least);
}

/// Least magnitude of a nonzero value of B whose products with values of magnitude `least_a` and
/// above are multiples of 2^-149: their exponents add up to -103 (twice 23 bits of fraction).
/// Infinity: no nonzero value has it.
[[nodiscard]] inline float least_b_for(float least_a) noexcept {
  constexpr int k_least_sum = -149 + 2 * 23;
  constexpr int k_least_normal = std::numeric_limits<float>::min_exponent - 1;  // -126
  if (least_a == std::numeric_limits<float>::infinity()) return std::numeric_limits<float>::min();
  const int exponent = std::max(std::ilogb(least_a), k_least_normal);
  // std::ldexp gives infinity where no float is so large.
  return std::ldexp(1.0F, std::max(k_least_sum - exponent, k_least_normal));
}

}  // namespace spjit

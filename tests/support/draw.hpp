#pragma once

/// @file
/// Numbers drawn from a seed; the seed is all there is to repeat them.

#include <array>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace spjit::testing_support {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}

  /// A whole number in [low, high]. (No distribution of the standard library: those differ.)
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(std::int64_t percent) { return between(1, 100) <= percent; }
  template <class T>
  T one_of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(between(0, std::ssize(values) - 1))];
  }

 private:
  std::mt19937_64 engine_;
};

/// One of the floats that are hardest to get right: zeros, subnormals, extremes, infinities, NaN.
[[nodiscard]] inline float special_value(std::uint64_t which) {
  using Limits = std::numeric_limits<float>;
  constexpr std::array<float, 12> k_values = {0.0F,
                                              -0.0F,
                                              Limits::denorm_min(),
                                              -1e-40F,
                                              1e-42F,
                                              Limits::max(),
                                              -Limits::max(),
                                              Limits::min(),
                                              Limits::infinity(),
                                              -Limits::infinity(),
                                              Limits::quiet_NaN(),
                                              1.0F};
  return k_values[which % k_values.size()];
}

/// In [-1, 1); a special value now and then, if asked for.
[[nodiscard]] inline float draw_value(Draw& draw, bool special) {
  if (special && draw.chance(3)) {
    return special_value(static_cast<std::uint64_t>(draw.between(0, 11)));
  }
  return static_cast<float>(draw.between(-(1 << 23), 1 << 23)) * 0x1p-23F;
}

}  // namespace spjit::testing_support

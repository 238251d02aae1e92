#pragma once

/// @file
/// Numbers drawn from a seed; the seed is all there is to repeat them.

#include <cstdint>
#include <random>
#include <vector>

namespace spjit::soak {

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

}  // namespace spjit::soak

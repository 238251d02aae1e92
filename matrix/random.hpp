#pragma once

/// @file
/// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014):
/// integer arithmetic only, so the same bits everywhere, which std distributions do not promise.

#include <cstdint>

namespace spjit {

/// The output of SplitMix64 from state `x`: a bijection of 64-bit words that looks random.
[[nodiscard]] constexpr std::uint64_t split_mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

class RandomStream {
 public:
  explicit constexpr RandomStream(std::uint64_t seed) : state_(split_mix(seed)) {}

  /// 64 uniform bits.
  [[nodiscard]] constexpr std::uint64_t next() {
    const std::uint64_t output = split_mix(state_);
    state_ += 0x9E3779B97F4A7C15U;
    return output;
  }

  /// Uniform in [0, bound), without bias: words past the last whole multiple of `bound` are drawn
  /// again. Precondition: bound > 0.
  [[nodiscard]] constexpr std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t excess = (0 - bound) % bound;  // 2^64 mod bound
    std::uint64_t word = next();
    while (word < excess) {
      word = next();
    }
    return word % bound;
  }

 private:
  std::uint64_t state_;
};

}  // namespace spjit

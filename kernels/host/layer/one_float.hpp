#pragma once

/// @file
/// One float with the members that activations ask of the vectors of
/// kernels/host/operands/simd.hpp, and the bits of a lane of those, on every x86-64.

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace spjit {

struct OneFloat {
  using Vector = float;
  static constexpr std::int64_t k_floats = 1;
  static constexpr std::size_t k_together = 1;

  static Vector zero() { return 0; }
  static Vector load(const float* from) { return *from; }
  static void store(float* to, Vector value) { *to = value; }
  static Vector broadcast(float value) { return value; }
  /// One rounding, by a function of the C library where the CPU has no instruction for it.
  static Vector fma(Vector a, Vector b, Vector c) { return std::fma(a, b, c); }
  static Vector add(Vector a, Vector b) { return a + b; }
  static Vector sub(Vector a, Vector b) { return a - b; }
  /// A product that the compiler cannot make part of an FMA.
  static Vector mul(Vector a, Vector b) {
    Vector product = a * b;
    asm("" : "+x"(product));
    return product;
  }
  static Vector div(Vector a, Vector b) { return a / b; }
  static Vector max(Vector a, Vector b) { return a > b ? a : b; }
  static Vector min(Vector a, Vector b) { return a < b ? a : b; }
  static Vector abs(Vector x) { return std::bit_cast<float>(bits(x) & ~k_sign); }
  static Vector copysign(Vector x, Vector sign) {
    return std::bit_cast<float>(bits(x) | (bits(sign) & k_sign));
  }
  static Vector where_less(Vector x, Vector bound, Vector a, Vector b) { return x < bound ? a : b; }
  static Vector power_of_two(Vector x) { return std::bit_cast<float>(bits(x) << 23); }

 private:
  static constexpr std::uint32_t k_sign = 0x80000000;
  static std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }
};

}  // namespace spjit

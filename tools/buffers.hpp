#pragma once

/// @file
/// B and C for measuring and checking a kernel.

#include <cstdint>

#include "base/float_buffer.hpp"

namespace spjit::cli {

/// Operands of C `[m x n]` = A `[m x k]` * B `[k x n]`, row-major and contiguous.
struct Operands {
  /// n = `columns`; B filled with pattern_value() of a fixed seed, C with NaN: what a kernel does
  /// not write shows.
  Operands(std::int64_t m, std::int64_t k, std::int64_t columns);

  /// What the two take.
  [[nodiscard]] static double bytes(std::int64_t m, std::int64_t k, std::int64_t n) {
    return 4.0 * (static_cast<double>(m) + static_cast<double>(k)) * static_cast<double>(n);
  }

  std::int64_t n;
  FloatBuffer b;
  FloatBuffer c;
};

/// Operands larger than this are not allocated: measuring and checking are left out, aloud.
inline constexpr double k_most_operand_bytes = 8e9;

}  // namespace spjit::cli

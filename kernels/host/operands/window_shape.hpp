#pragma once

/// @file
/// Columns and lanes of B that kernels of the family `windows` fetch at once.

#include <cstdint>

#include "spjit/target.hpp"

namespace spjit {

/// Columns of B up to which there are kernels of `windows`; they are the fastest for fewer
/// (docs/results/host.md).
inline constexpr std::int64_t k_most_window_columns = 4;

/// Whether there is one for n columns of B.
[[nodiscard]] constexpr bool has_windows(HostIsa isa, std::int64_t n) noexcept {
  return isa != HostIsa::generic && n >= 1 && n <= k_most_window_columns;
}

/// How steps hold an entry.
enum class WindowSlots : std::uint8_t {
  apart,   ///< a place and a value
  packed,  ///< a byte: the place in its low four bits, a value of i4 in the high ones
};

/// The window of an instruction set.
struct WindowShape {
  std::int64_t lanes;       ///< rows of a group: those of a vector
  std::int64_t window;      ///< columns that a step's entries lie in: those of two vectors
  std::int64_t align;       ///< windows begin at a multiple, but the last one
  std::int64_t behind = 0;  ///< floats behind a column of B, so that a window may begin in any

  /// Floats of a column of B that are read: `cols` or more, a window at least, whole lines where
  /// windows are aligned.
  [[nodiscard]] std::int64_t column_floats(std::int64_t cols) const noexcept;
  /// Bytes of a step: its first column, places and values.
  [[nodiscard]] std::int64_t step_bytes() const noexcept;
  /// A step's first column has 16 bits.
  [[nodiscard]] std::int64_t most_cols() const noexcept;
};

/// AVX-512: windows that lie in two lines of a cache are worth more than the entries that they
/// miss: 384 x 384 at 80 %, n = 1, on a Zen 4: 2.65 us, not 3.04. AVX2 reads half lines, and more
/// steps: 3.8 us hot, not 4.0, but more bytes from memory.
/// A packed place has four bits on both.
/// Precondition: `isa` is avx512 or avx2.
[[nodiscard]] WindowShape window_shape(HostIsa isa,
                                       WindowSlots slots = WindowSlots::apart) noexcept;

}  // namespace spjit

#pragma once

/// @file
/// Operands of a check, between floats that show whether a kernel touched them.

#include <cstdint>
#include <string>

#include "base/cancel.hpp"
#include "base/float_buffer.hpp"
#include "base/row_ranges.hpp"

namespace spjit {

/// Rows of floats in a buffer: of features, of tokens, or a panel each. Around and between the rows
/// that are used every float is a guard.
/// The guards are signalling NaN, which no arithmetic ever gives: what is not written stays one,
/// and what reads one spoils a sum. Rows that are not used take no memory.
class GuardedRows {
 public:
  /// `rows` rows of n floats, ld apart, none of those in `used` written. Throws what `pace` throws,
  /// std::bad_alloc, and InvalidArgument if there are too many floats to count.
  GuardedRows(std::int64_t rows, std::int64_t n, std::int64_t ld, const RowRanges& used,
              CancelPace& pace);

  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::int64_t n() const noexcept { return n_; }
  [[nodiscard]] float* row(std::int64_t row) const noexcept;

  /// Where a guard was written over: "behind row 3"; empty if none was. Every row must be used.
  [[nodiscard]] std::string touched(CancelPace& pace) const;

  /// Bytes that so many used rows take.
  [[nodiscard]] static double bytes(std::int64_t rows, std::int64_t ld) noexcept;

 private:
  std::int64_t rows_;
  std::int64_t n_;
  std::int64_t ld_;
  FloatBuffer floats_;
};

/// Whether the float is a guard, or an element that was never written.
[[nodiscard]] bool is_unwritten(float value) noexcept;

}  // namespace spjit

#pragma once

/// @file
/// A of bytes as masks: a bit for each column, and values of those that have an entry, which an
/// expansion puts back in their places.

#include <cstdint>
#include <span>
#include <vector>

#include "base/cancel.hpp"
#include "base/row_ranges.hpp"
#include "kernels/host/byte_windows/byte_operands.hpp"
#include "kernels/host/object/csr_view.hpp"
#include "spjit/data_type.hpp"

namespace spjit {

/// A of i8. It takes an eighth of a byte a column and a byte an entry. Where all values are those
/// of i4, two rows share bytes, as many as the longer one has entries. Each product with a zero is
/// computed, so it is for runs that wait for memory. Thread-safe.
///
/// A block is the columns [64 i, 64 i + 64) of a group of rows: its masks, and its values row after
/// row. Groups follow one another in one stream. Scales of groups of columns take half as much
/// where bf16 or f16 has all of them.
class MaskedBytes {
 public:
  static constexpr std::int64_t k_block = 64;  ///< columns

  /// Whether this CPU has the instructions.
  [[nodiscard]] static bool runs_here() noexcept;

  /// `tokens`: as many as most runs have. Throws what `cancel` throws. Preconditions: `matrix` has
  /// values, which are those of i8; up to k_most_byte_columns columns.
  MaskedBytes(const CsrView& matrix, std::int64_t tokens, const Cancellation& cancel = {});

  [[nodiscard]] std::int64_t cols() const noexcept { return cols_; }
  [[nodiscard]] std::int64_t lanes() const noexcept { return lanes_; }  ///< rows of a group
  [[nodiscard]] std::int64_t groups() const noexcept { return std::ssize(ends_); }
  [[nodiscard]] std::int64_t blocks() const noexcept;  ///< times rows
  [[nodiscard]] bool has_nibbles() const noexcept { return has_nibbles_; }
  [[nodiscard]] bool has_scales() const noexcept { return column_groups_ > 0; }
  [[nodiscard]] DataType scale_type() const noexcept { return scale_type_; }
  /// That A takes in this form.
  [[nodiscard]] std::int64_t bytes() const noexcept;
  /// That it holds, with what is not used.
  [[nodiscard]] std::int64_t held_bytes() const noexcept;

  /// At most `parts` ranges of groups of nearly equal work, in order.
  [[nodiscard]] std::vector<RowRange> split(std::int64_t parts) const;

  /// Computes the rows of C in groups [begin, end); ranges that do not overlap may run at once.
  /// Tokens are `token_bytes` apart, and have whole blocks. Preconditions: unsigned bytes, not of
  /// an image; a zero point of 0 to 255; runs_here().
  void run(const RowRange& groups, const ByteOperands& operands, std::int64_t token_bytes) const;

 private:
  struct Reader;

  void add_group(const CsrView& matrix, std::int64_t first_row);
  void add_values(const CsrView& matrix, const RowRange& first, const RowRange& second);
  void add_scales(const CsrView& matrix);

  std::int64_t rows_;
  std::int64_t cols_;
  std::int64_t lanes_;
  bool has_nibbles_;
  std::vector<std::uint8_t> stream_;    ///< of all groups, and what a load reads behind them
  std::vector<std::int64_t> ends_;      ///< [groups] bytes up to the end of each
  std::vector<std::int32_t> row_sums_;  ///< [rows] of A, without scales
  std::int64_t group_columns_ = 0;
  std::int64_t column_groups_ = 0;  ///< 0: there are no scales
  DataType scale_type_ = DataType::f32;
  std::vector<std::uint8_t> scales_;  ///< [groups x column groups x lanes] of that type
};

}  // namespace spjit

#pragma once

/// @file
/// How rows of A go through steps that have a row in each lane, each row at its own pace.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "base/arithmetic.hpp"
#include "kernels/host/operands/row_order.hpp"

namespace spjit {

/// Entries of a group's rows that no step has taken yet. Refers to the matrix.
class RowCursor {
 public:
  static constexpr std::size_t k_most_lanes = 16;
  /// The column of a lane that has no entry left. A window that begins there ends below 2^63.
  static constexpr std::int64_t k_none = std::numeric_limits<std::int64_t>::max() / 2;

  /// Precondition: up to k_most_lanes rows.
  RowCursor(const CsrView& matrix, std::span<const std::int32_t> rows) : matrix_(matrix) {
    columns_.fill(k_none);
    for (std::size_t lane = 0; lane < rows.size(); ++lane) {
      next_[lane] = matrix.row_ptrs[to_size(rows[lane])];
      ends_[lane] = matrix.row_ptrs[to_size(rows[lane]) + 1];
      read_column(lane);
    }
  }

  /// The column of the lane's next entry, or k_none.
  [[nodiscard]] std::int64_t column(std::size_t lane) const { return columns_[lane]; }
  [[nodiscard]] std::int64_t least_column() const { return *std::ranges::min_element(columns_); }

  /// The lane's next entry, which it goes past. Precondition: there is one.
  std::int64_t take(std::size_t lane) {
    const std::int64_t entry = next_[lane]++;
    read_column(lane);
    return entry;
  }

 private:
  void read_column(std::size_t lane) {
    columns_[lane] = next_[lane] < ends_[lane] ? matrix_.col_idxs[to_size(next_[lane])] : k_none;
  }

  const CsrView& matrix_;
  std::array<std::int64_t, k_most_lanes> next_{};
  std::array<std::int64_t, k_most_lanes> ends_{};
  std::array<std::int64_t, k_most_lanes> columns_{};  ///< of next_, or k_none
};

/// order_rows() for steps of a Cursor: `Cursor(matrix, shape, rows)`, whose
/// `step(start, on_entry(slot, entry, place))` is false where there is no step left.
template <class Cursor, class Shape>
[[nodiscard]] OrderedRows order_rows_of(const CsrView& matrix, const Shape& shape,
                                        const Cancellation& cancel,
                                        std::int64_t together = k_ordered_rows) {
  const auto steps_of = [&](std::span<const std::int32_t> rows) {
    std::int64_t steps = 0;
    for_each_group(rows, shape.lanes, [&](std::span<const std::int32_t> of_group) {
      std::int64_t start = 0;
      Cursor cursor(matrix, shape, of_group);
      while (cursor.step(start, [](std::size_t, std::int64_t, std::uint8_t) {})) ++steps;
    });
    return steps;
  };
  return order_rows(matrix, shape.lanes, steps_of, cancel, together);
}

}  // namespace spjit

#pragma once

/// @file
/// A of bytes as the family `byte_windows` reads it: groups of rows, a lane a row, and steps that
/// take up to four entries of each lane.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/cancel.hpp"
#include "kernels/host/object/csr_view.hpp"
#include "kernels/host/operands/row_order.hpp"

namespace spjit {

/// How a step holds an entry of A.
enum class ByteSlots : std::uint8_t {
  apart,   ///< a place and a value
  packed,  ///< a byte: the place in its low four bits, a value of i4 in the high ones
  masked,  ///< its bit in a mask says its place (MaskedBytes)
};

/// Rows and columns that a step takes entries of.
struct ByteShape {
  static constexpr std::int64_t k_entries = 4;  ///< of a row, at most

  std::int64_t lanes;   ///< rows of a group
  std::int64_t window;  ///< columns that the entries lie in
  ByteSlots held = ByteSlots::apart;
  /// Rows whose groups follow one another: those of each so many, the first ones first.
  std::int64_t together = k_ordered_rows;

  /// Places for entries.
  [[nodiscard]] constexpr std::int64_t slots() const noexcept { return lanes * k_entries; }
  /// Bytes of a step: its first column, places and values.
  [[nodiscard]] constexpr std::int64_t step_bytes() const noexcept { return 4 + 2 * slots(); }
};

/// Columns of A that kernels are made for, at most.
inline constexpr std::int64_t k_most_byte_columns = 65'536;

/// A's entries in steps, one stream from the first group to the last.
///
/// A step's window begins with the least column that is next in any lane of its group, and takes
/// the next entries of each lane whose columns lie in it. Each row goes at its own pace, its
/// entries in ascending column. Slot lane * 4 + i has the i-th entry of that lane. Where columns
/// have scales in groups (CsrView::groups), a window ends with its group.
struct ByteSteps {
  static constexpr std::int64_t k_no_entry = -1;

  ByteShape shape;
  std::vector<std::int64_t> ends = {};     ///< [groups] steps up to the end of each
  std::vector<std::int32_t> rows = {};     ///< [groups x lanes] row of each lane; -1: none
  std::vector<std::uint32_t> starts = {};  ///< [steps] first column of the window
  std::vector<std::uint8_t> places =
      {};  ///< [steps x slots] columns from there; 0: there is no entry
  std::vector<std::int64_t> entries = {};  ///< [steps x slots] entry of A, or k_no_entry
  /// [groups x groups of columns] steps of each, where columns have scales in groups
  std::vector<std::uint8_t> of_columns = {};

  [[nodiscard]] std::int64_t groups() const noexcept {
    return static_cast<std::int64_t>(ends.size());
  }
  [[nodiscard]] std::int64_t steps() const noexcept {
    return static_cast<std::int64_t>(starts.size());
  }
  /// Memory of the arrays, used or not.
  [[nodiscard]] std::int64_t held_bytes() const noexcept;
};

/// A's rows as its steps take them, and how many steps those are. Throws what `cancel` throws.
[[nodiscard]] OrderedRows order_byte_rows(const CsrView& matrix, const ByteShape& shape,
                                          const Cancellation& cancel = {});

/// `ordered`: by order_byte_rows() for this shape. Throws what `cancel` throws soon after it is
/// reached. Precondition: A has at most k_most_byte_columns columns.
[[nodiscard]] ByteSteps make_byte_steps(const CsrView& matrix, const ByteShape& shape,
                                        const OrderedRows& ordered,
                                        const Cancellation& cancel = {});

}  // namespace spjit

#pragma once

/// @file
/// A as the family `windows` reads it: groups of rows, a lane a row, and steps that take at most
/// one entry of each lane.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/cancel.hpp"
#include "kernels/host/object/csr_view.hpp"
#include "kernels/host/operands/window_shape.hpp"

namespace spjit {

/// Steps of two groups, which are computed together, as the sums of one would wait for each other:
/// `both` steps of each, in turn, then those that the first group has more.
struct GroupPair {
  std::int64_t step;  ///< the first of them
  std::int32_t both;
  std::int32_t more;
};

/// Steps of a pair within one group of columns that has scales: `both` of each, in turn, then those
/// that one of them has more.
struct ScaledSteps {
  std::uint16_t both;
  std::uint16_t more_of_first;
  std::uint16_t more_of_second;

  [[nodiscard]] constexpr int all() const noexcept {
    return 2 * both + more_of_first + more_of_second;
  }
};

/// A's entries in steps, one stream from the first group to the last.
///
/// A step's window begins with the least column that is next in any lane of its group (rounded down
/// to `align`), and takes the next entry of each lane whose column lies in it. So each row's
/// entries come in ascending column, and each row at its own pace. Where columns have scales in
/// groups (CsrView::groups), a window ends at a group's end, too, and steps of a pair come group by
/// group.
/// Places and values are arrays of their own, whatever types the values have.
struct WindowSteps {
  static constexpr std::uint8_t k_no_place = std::numeric_limits<std::uint8_t>::max();
  static constexpr std::int64_t k_no_entry = -1;

  WindowShape shape;
  std::vector<GroupPair> pairs;
  std::vector<std::int32_t> rows;     ///< [pairs x 2 x lanes] row of each lane; -1: none
  std::vector<std::uint16_t> starts;  ///< [steps] first column of the window / align
  std::vector<std::uint8_t> places;   ///< [steps x lanes] in the window, or k_no_place
  std::vector<std::int64_t> entries;  ///< [steps x lanes] entry of A, or k_no_entry
  std::vector<ScaledSteps> scaled;    ///< [pairs x groups of columns], where those have scales

  [[nodiscard]] std::int64_t steps() const noexcept {
    return static_cast<std::int64_t>(starts.size());
  }
  /// Memory of the arrays, used or not.
  [[nodiscard]] std::int64_t held_bytes() const noexcept;
};

/// Throws what `cancel` throws soon after it is reached. Precondition: A has at most most_cols()
/// columns.
[[nodiscard]] WindowSteps make_window_steps(const CsrView& matrix, const WindowShape& shape,
                                            const Cancellation& cancel = {});

/// Bytes of A in steps, padding included. Throws what `cancel` throws.
[[nodiscard]] std::int64_t window_bytes(const CsrView& matrix, const WindowShape& shape,
                                        const Cancellation& cancel = {});

}  // namespace spjit

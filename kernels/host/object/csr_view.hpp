#pragma once

/// @file
/// A in CSR form, borrowed, and how its rows are divided.

#include <cstdint>
#include <span>
#include <vector>

#include "base/row_ranges.hpp"
#include "plan/group_scales.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// A `[rows x cols]` in CSR form, borrowed: the arrays must outlive the view. Valid as
/// CsrMatrix::validate() says, rows sorted.
struct CsrView {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::span<const std::int64_t> row_ptrs;  ///< rows + 1 offsets
  std::span<const std::int32_t> col_idxs;  ///< nnz columns
  std::span<const float> values;           ///< nnz values; none where they are of a run
  GroupScalesView groups = {};             ///< scales of groups of columns; mostly none

  [[nodiscard]] std::int64_t nnz() const noexcept {
    return static_cast<std::int64_t>(col_idxs.size());
  }
  [[nodiscard]] bool has_values() const noexcept { return values.size() == col_idxs.size(); }
};

[[nodiscard]] CsrView view_of(const CsrMatrix& matrix) noexcept;

/// Entries of A that read a row of B, on average.
[[nodiscard]] constexpr double entries_a_column(std::int64_t nnz, std::int64_t cols) noexcept {
  return static_cast<double>(nnz) / static_cast<double>(cols > 0 ? cols : 1);
}

/// Fewer do not pay for packing that row. Measured on networks (docs/results/host.md).
inline constexpr double k_few_entries_a_column = 20;
/// From so many columns of B on its rows, read in place, are so far apart that they share too few
/// sets of the caches. A loop over the entries of A, a row of B at a time, is faster then. AVX-512;
/// with AVX2, whose panels are narrow, half of it.
inline constexpr std::int64_t k_far_columns = 192;

/// Cuts [0, count) into at most `parts` non-empty consecutive ranges of nearly equal work;
/// `work_before(i)` of 0 to `count` ascends. Precondition: `parts` >= 1.
template <class WorkBefore>
[[nodiscard]] std::vector<RowRange> split_evenly(std::int64_t count, std::int64_t parts,
                                                 const WorkBefore& work_before) {
  std::vector<RowRange> ranges;
  std::int64_t begin = 0;
  for (std::int64_t part = 1; part <= parts; ++part) {
    // In double: parts * work may exceed 64 bits, and the cut need not be exact.
    const double share = static_cast<double>(part) / static_cast<double>(parts);
    const double target = share * static_cast<double>(work_before(count));
    std::int64_t low = begin;
    std::int64_t high = count;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      const bool is_short = static_cast<double>(work_before(middle)) < target;
      (is_short ? low : high) = is_short ? middle + 1 : middle;
    }
    const std::int64_t end = part == parts ? count : low;
    if (end > begin) ranges.push_back({begin, end});
    begin = end;
  }
  return ranges;
}

/// Cuts the rows into at most `parts` non-empty consecutive ranges of nearly equal work, an entry
/// and the writing of a row counted alike. No rows: no ranges. Precondition: `parts` >= 1.
[[nodiscard]] std::vector<RowRange> split_rows(const CsrView& matrix, std::int64_t parts);

}  // namespace spjit

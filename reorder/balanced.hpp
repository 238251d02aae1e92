#pragma once

/// @file
/// Algorithm 1 of LO-SpMM (section 4.2): small maximum nnc, balanced nnz.

#include <cstdint>
#include <span>

#include "base/cancel.hpp"
#include "reorder/grouping_limits.hpp"
#include "reorder/row_subset.hpp"

namespace spjit::reorder {

/// Groups `rows` (non-empty rows of a valid matrix, by ascending nnz) into `ceil(rows / m1)` tiles
/// of at most `m1` >= 1 matrix rows, in order of assignment. Each row goes to the tile with room
/// and `nnz < nnz(rows) / tiles` whose union of columns with the row is smallest; where no tile
/// with room is below that bound, to the smallest union. Ties go to the tile with the lower number.
/// Past `limits` the rows are dealt in turn to shards of nearly equal numbers of tiles, and each
/// shard is grouped by itself, with the bound of the whole. `cancel` is asked all along.
[[nodiscard]] RowTiles group_balanced(const CsrMatrix& matrix, std::span<const std::int32_t> rows,
                                      std::int64_t m1, const GroupingLimits& limits = {},
                                      const Cancellation& cancel = {});

}  // namespace spjit::reorder

#pragma once

/// @file
/// Row tiles that share columns: as many FMAs as possible for each loaded row of B.

#include <cstdint>
#include <span>

#include "base/cancel.hpp"
#include "reorder/grouping_limits.hpp"
#include "reorder/row_subset.hpp"

namespace spjit::reorder {

/// Groups `rows` (non-empty rows of a valid matrix, by ascending nnz) into tiles of `m1` >= 1
/// matrix rows, the last one of what is left. A tile starts with the first free row and grows by
/// the free row with the smallest share of columns that are new to the tile (new / nnz); ties go to
/// the larger overlap, then to the earlier row. Where no free row shares a column with the tile,
/// the first free one joins. Past `limits` the rows are cut into consecutive shards, and each shard
/// is grouped by itself. `cancel` is asked all along.
[[nodiscard]] RowTiles group_similar(const CsrMatrix& matrix, std::span<const std::int32_t> rows,
                                     std::int64_t m1, const GroupingLimits& limits = {},
                                     const Cancellation& cancel = {});

}  // namespace spjit::reorder

#pragma once

/// @file
/// How rows are grouped into tiles, and how a grouping is made better.

#include <cstdint>
#include <span>

#include "base/cancel.hpp"
#include "reorder/grouping_limits.hpp"
#include "reorder/row_subset.hpp"

namespace spjit::reorder {

/// Algorithm 1 of LO-SpMM (section 4.2): small maximum nnc, balanced nnz.
///
/// Groups `rows` (non-empty rows of a valid matrix, by ascending nnz) into `ceil(rows / m1)` tiles
/// of at most `m1` >= 1 matrix rows, in order of assignment. Each row goes to the tile with room
/// and `nnz < nnz(rows) / tiles` whose union of columns with the row is smallest; where no tile
/// with room is below that bound, to the smallest union. Ties go to the tile with the lower number.
/// Past `limits` the rows are dealt in turn to shards of nearly equal numbers of tiles, and each
/// shard is grouped by itself, with the bound of the whole. `cancel` is asked all along.
[[nodiscard]] RowTiles group_balanced(const CsrMatrix& matrix, std::span<const std::int32_t> rows,
                                      std::int64_t m1, const GroupingLimits& limits = {},
                                      const Cancellation& cancel = {});

/// Row tiles that share columns: as many FMAs as possible for each loaded row of B.
///
/// Groups `rows` (non-empty rows of a valid matrix, by ascending nnz) into tiles of `m1` >= 1
/// matrix rows, the last one of what is left. A tile starts with the first free row. It grows by
/// the free row with the smallest share of columns that are new to the tile (new / nnz). Ties go to
/// the larger overlap, then to the earlier row. Where no free row shares a column with the tile,
/// the first free one joins. Past `limits` the rows are cut into consecutive shards, and each shard
/// is grouped by itself. `cancel` is asked all along.
[[nodiscard]] RowTiles group_similar(const CsrMatrix& matrix, std::span<const std::int32_t> rows,
                                     std::int64_t m1, const GroupingLimits& limits = {},
                                     const Cancellation& cancel = {});

struct RefinementLimits {
  /// Rows a block of consecutive tiles holds at most; swaps stay inside a block, so the cost is
  /// linear in the blocks. At least two tiles are taken in any case.
  std::int64_t block_rows = 512;
  /// Passes over the rows of a block; later passes gained less than 0.1 % on DLMC matrices.
  int passes = 2;
  /// A block whose tables need more than this many visits or entries is left as it is. The search
  /// of a block ends once it has visited as many rows and nonzeros: about 10 ms. Both happen where
  /// tiles have few rows and rows are dense, and swaps save under 0.5 % there.
  std::int64_t block_work = std::int64_t{1} << 23;
};

/// Local search after a greedy grouping: rows of two tiles change places while that saves columns.
///
/// Keeps the sizes of the tiles, and never makes the sum of nnc larger. For
/// each row the swap that saves most columns is made, if any saves one; ties go to the earlier row.
/// `cancel` is asked all along.
[[nodiscard]] RowTiles refine_by_swaps(const CsrMatrix& matrix, RowTiles tiles,
                                       const RefinementLimits& limits = {},
                                       const Cancellation& cancel = {});

}  // namespace spjit::reorder

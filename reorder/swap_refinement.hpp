#pragma once

/// @file
/// Local search after a greedy grouping: rows of two tiles change places while that saves columns.

#include <cstdint>

#include "base/cancel.hpp"
#include "reorder/row_subset.hpp"

namespace spjit::reorder {

struct RefinementLimits {
  /// Rows a block of consecutive tiles holds at most; swaps stay inside a block, so the cost is
  /// linear in the blocks. At least two tiles are taken in any case.
  std::int64_t block_rows = 512;
  /// Passes over the rows of a block; later passes gained less than 0.1 % on DLMC matrices.
  int passes = 2;
  /// A block whose tables need more than this many visits or entries is left as it is, and the
  /// search of a block ends once it has visited as many rows and nonzeros: about 10 ms. Both happen
  /// where tiles have few rows and rows are dense, and swaps save under 0.5 % there.
  std::int64_t block_work = std::int64_t{1} << 23;
};

/// The same tiles of matrix rows with the same sizes, and a sum of nnc that is never larger. For
/// each row the swap that saves most columns is made, if any saves one; ties go to the earlier row.
/// `cancel` is asked all along.
[[nodiscard]] RowTiles refine_by_swaps(const CsrMatrix& matrix, RowTiles tiles,
                                       const RefinementLimits& limits = {},
                                       const Cancellation& cancel = {});

}  // namespace spjit::reorder

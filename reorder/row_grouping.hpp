#pragma once

/// @file
/// Regrouping rows into tiles of M1 rows, so that the rows of a tile share columns.

#include <cstdint>
#include <vector>

#include "base/cancel.hpp"
#include "base/row_ranges.hpp"
#include "matrix/column_numbers.hpp"
#include "spjit/matrix.hpp"
#include "spjit/reorder.hpp"

namespace spjit {

/// Which rows of A go to which row tile. Every non-empty row is in exactly one tile.
struct RowGrouping {
  std::int64_t m1 = 0;                        ///< rows a tile holds at most
  std::vector<std::int32_t> rows;             ///< rows of A, tile after tile
  std::vector<std::int64_t> tile_ptrs = {0};  ///< tiles + 1 offsets into `rows`
  RowRanges empty_rows;                       ///< rows without entries: written as zeros

  [[nodiscard]] std::int64_t tiles() const noexcept {
    return static_cast<std::int64_t>(tile_ptrs.size()) - 1;
  }
};

/// Groups the rows of a valid matrix into `ceil(non-empty rows / m1)` tiles; the rows of a tile are
/// ascending. Deterministic and thread-safe. `automatic` is `similarity` here. Throws
/// InvalidArgument unless `m1` >= 1. Time is near linear in nnz, memory a multiple of nnz + rows
/// whatever k is (docs/design/reorder.md). Throws what `cancel` throws soon after it is reached.
[[nodiscard]] RowGrouping group_rows(const CsrMatrix& matrix, std::int64_t m1,
                                     ReorderAlgorithm algorithm, const Cancellation& cancel = {});

/// The worth of a grouping. nnc = non-empty columns of a row tile.
struct GroupingStatistics {
  std::int64_t tiles = 0;
  std::int64_t nnc_sum = 0;
  std::int64_t nnc_max = 0;
  double nnc_mean = 0;
  std::int64_t tile_nnz_min = 0;
  std::int64_t tile_nnz_max = 0;
  double tile_nnz_cv = 0;    ///< coefficient of variation of nnz over tiles
  double fmas_per_load = 0;  ///< nnz / nnc_sum: FMAs one loaded B row serves
};

/// `grouping` must be one of `matrix`. All zero where there are no tiles. Throws what `cancel`
/// throws soon after it is reached.
[[nodiscard]] GroupingStatistics compute_statistics(const CsrMatrix& matrix,
                                                    const RowGrouping& grouping,
                                                    const Cancellation& cancel = {});

/// Estimates a grouping without grouping: non-empty rows in the order of min-hashes of their
/// columns, so that rows alike are neighbours, are cut into tiles. Regrouping finds fewer columns
/// still. Takes time linear in nnz once, and less for each m1: of a long matrix only some tiles are
/// looked at. Memory follows the nonzeros. Refers to the matrix. Both throw what `cancel` throws
/// soon after it is reached.
class EstimatedGrouping {
 public:
  explicit EstimatedGrouping(const CsrMatrix& matrix, Cancellation cancel = {});

  /// Only `tiles`, `nnc_sum`, `nnc_mean` and `fmas_per_load` are set. Throws InvalidArgument unless
  /// `m1` >= 1.
  [[nodiscard]] GroupingStatistics statistics(std::int64_t m1) const;

 private:
  const CsrMatrix& matrix_;
  Cancellation cancel_;
  ColumnNumbers columns_;
  std::vector<std::int32_t> order_;  ///< of non-empty rows
};

}  // namespace spjit

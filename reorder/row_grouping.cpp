#include "reorder/row_grouping.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "reorder/algorithms.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using reorder::at;
using reorder::RowTiles;

std::int64_t row_nnz(const CsrMatrix& matrix, std::int32_t row) {
  return matrix.row_ptrs[at(row) + 1] - matrix.row_ptrs[at(row)];
}

std::vector<std::int32_t> list_rows(const CsrMatrix& matrix, const Cancellation& cancel) {
  std::vector<std::int32_t> rows;
  for_each_piece(matrix.rows, cancel, [&](std::int64_t begin, std::int64_t end) {
    for (auto row = static_cast<std::int32_t>(begin); row < end; ++row) {
      if (row_nnz(matrix, row) != 0) rows.push_back(row);
    }
  });
  return rows;
}

/// The rows between those of `rows`, which ascend.
RowRanges gaps_between(const std::vector<std::int32_t>& rows, std::int64_t all) {
  RowRanges gaps;
  std::int64_t next = 0;
  for (const std::int32_t row : rows) {
    if (row > next) gaps.add(next, row);
    next = std::int64_t{row} + 1;
  }
  if (next < all) gaps.add(next, all);
  return gaps;
}

void sort_by_nnz(const CsrMatrix& matrix, std::vector<std::int32_t>& rows,
                 const Cancellation& cancel) {
  CancelPace pace(cancel);
  std::stable_sort(rows.begin(), rows.end(), [&](std::int32_t left, std::int32_t right) {
    pace.spend(1);
    return row_nnz(matrix, left) < row_nnz(matrix, right);
  });
}

RowTiles cut_in_order(const std::vector<std::int32_t>& rows, std::int64_t m1,
                      const Cancellation& cancel) {
  RowTiles tiles;
  CancelPace pace(cancel);
  for (const std::int32_t row : rows) {
    pace.spend(1);
    if (tiles.empty() || static_cast<std::int64_t>(tiles.back().size()) == m1) {
      tiles.emplace_back();
    }
    tiles.back().push_back(row);
  }
  return tiles;
}

RowTiles make_tiles(const CsrMatrix& matrix, std::vector<std::int32_t> rows, std::int64_t m1,
                    ReorderAlgorithm algorithm, const Cancellation& cancel) {
  const bool has_choice = m1 > 1 && m1 < static_cast<std::int64_t>(rows.size());
  switch (algorithm) {
    case ReorderAlgorithm::none:
      return cut_in_order(rows, m1, cancel);
    case ReorderAlgorithm::balanced:
      if (!has_choice) return cut_in_order(rows, m1, cancel);
      sort_by_nnz(matrix, rows, cancel);
      return reorder::group_balanced(matrix, rows, m1, {}, cancel);
    case ReorderAlgorithm::similarity:
    case ReorderAlgorithm::automatic:
      if (!has_choice) return cut_in_order(rows, m1, cancel);
      sort_by_nnz(matrix, rows, cancel);
      return reorder::refine_by_swaps(matrix, reorder::group_similar(matrix, rows, m1, {}, cancel),
                                      {}, cancel);
  }
  throw InvalidArgument(
      fmt::format("reorder algorithm {} is none of the enumerators: expected none, balanced, "
                  "similarity or automatic; pass one of these",
                  static_cast<int>(algorithm)));
}

double coefficient_of_variation(const std::vector<std::int64_t>& counts) {
  const auto size = static_cast<double>(counts.size());
  const auto sum = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (sum == 0) return 0;
  const double mean = static_cast<double>(sum) / size;
  double variance = 0;
  for (const std::int64_t count : counts) {
    const double distance = static_cast<double>(count) - mean;
    variance += distance * distance / size;
  }
  return std::sqrt(variance) / mean;
}

}  // namespace

RowGrouping group_rows(const CsrMatrix& matrix, std::int64_t m1, ReorderAlgorithm algorithm,
                       const Cancellation& cancel) {
  if (m1 < 1) {
    throw InvalidArgument(fmt::format("m1 = {}: expected at least 1 row a tile; pass m1 >= 1", m1));
  }
  RowGrouping grouping;
  grouping.m1 = m1;
  std::vector<std::int32_t> rows = list_rows(matrix, cancel);
  grouping.empty_rows = gaps_between(rows, matrix.rows);
  CancelPace pace(cancel);
  for (auto& tile : make_tiles(matrix, std::move(rows), m1, algorithm, cancel)) {
    pace.spend(std::ssize(tile));
    // Ascending, so that C is written forwards.
    std::sort(tile.begin(), tile.end());
    grouping.rows.insert(grouping.rows.end(), tile.begin(), tile.end());
    grouping.tile_ptrs.push_back(static_cast<std::int64_t>(grouping.rows.size()));
  }
  return grouping;
}

GroupingStatistics compute_statistics(const CsrMatrix& matrix, const RowGrouping& grouping,
                                      const Cancellation& cancel) {
  GroupingStatistics statistics;
  statistics.tiles = grouping.tiles();
  if (statistics.tiles == 0) return statistics;

  const reorder::RowSubset rows = reorder::take_rows(matrix, grouping.rows, cancel);
  std::vector<std::int64_t> last_tile = filled(rows.cols, std::int64_t{-1}, cancel);
  CancelPace pace(cancel);
  std::vector<std::int64_t> tile_nnz;
  for (std::int64_t tile = 0; tile < statistics.tiles; ++tile) {
    const std::int64_t first_row = grouping.tile_ptrs[at(tile)];
    const std::int64_t last_row = grouping.tile_ptrs[at(tile) + 1];
    std::int64_t nnc = 0;
    const std::int64_t first = rows.row_ptrs[at(first_row)];
    const std::int64_t last = rows.row_ptrs[at(last_row)];
    pace.pieces(first, last, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        if (std::exchange(last_tile[at(rows.col_idxs[at(i)])], tile) != tile) ++nnc;
      }
    });
    statistics.nnc_sum += nnc;
    statistics.nnc_max = std::max(statistics.nnc_max, nnc);
    tile_nnz.push_back(last - first);
  }

  const auto [nnz_min, nnz_max] = std::minmax_element(tile_nnz.begin(), tile_nnz.end());
  statistics.tile_nnz_min = *nnz_min;
  statistics.tile_nnz_max = *nnz_max;
  statistics.tile_nnz_cv = coefficient_of_variation(tile_nnz);
  statistics.nnc_mean =
      static_cast<double>(statistics.nnc_sum) / static_cast<double>(statistics.tiles);
  if (statistics.nnc_sum > 0) {
    statistics.fmas_per_load =
        static_cast<double>(rows.nnz()) / static_cast<double>(statistics.nnc_sum);
  }
  return statistics;
}

}  // namespace spjit

#pragma once

/// @file
/// The grouping algorithms written down as they are defined, at any cost: what the fast ones are
/// compared with.

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "reorder/row_subset.hpp"
#include "spjit/matrix.hpp"

namespace spjit::reference {

using ColumnSet = std::set<std::int32_t>;

inline ColumnSet columns_of(const CsrMatrix& matrix, std::int32_t row) {
  const auto first = matrix.col_idxs.begin() + matrix.row_ptrs[static_cast<std::size_t>(row)];
  const auto last = matrix.col_idxs.begin() + matrix.row_ptrs[static_cast<std::size_t>(row) + 1];
  return {first, last};
}

inline ColumnSet merge(ColumnSet left, const ColumnSet& right) {
  left.insert(right.begin(), right.end());
  return left;
}

/// Non-empty rows by ascending nnz, equal ones by ascending number.
inline std::vector<std::int32_t> rows_by_nnz(const CsrMatrix& matrix) {
  std::set<std::pair<std::size_t, std::int32_t>> order;
  for (std::int32_t row = 0; row < matrix.rows; ++row) {
    const std::size_t nnz = columns_of(matrix, row).size();
    if (nnz > 0) order.emplace(nnz, row);
  }
  std::vector<std::int32_t> rows;
  for (const auto& [nnz, row] : order) rows.push_back(row);
  return rows;
}

struct Tile {
  std::int64_t nnz = 0;
  ColumnSet columns;
  std::vector<std::int32_t> rows;
};

/// Algorithm 1 of LO-SpMM, lines 9 to 22, for one row.
inline std::size_t choose_tile(const std::vector<Tile>& tiles, const ColumnSet& row, std::size_t m1,
                               std::int64_t nnz_total) {
  std::set<std::pair<std::size_t, std::size_t>> by_union;
  for (std::size_t tile = 0; tile < tiles.size(); ++tile) {
    by_union.emplace(merge(tiles[tile].columns, row).size(), tile);
  }
  std::size_t chosen = tiles.size();
  for (const auto& [nnc, tile] : by_union) {
    if (tiles[tile].rows.size() >= m1) continue;
    if (chosen == tiles.size()) chosen = tile;
    if (static_cast<double>(tiles[tile].nnz) <
        static_cast<double>(nnz_total) / static_cast<double>(tiles.size())) {
      return tile;
    }
  }
  return chosen;
}

inline reorder::RowTiles group_balanced(const CsrMatrix& matrix, std::size_t m1) {
  const std::vector<std::int32_t> rows = rows_by_nnz(matrix);
  std::vector<Tile> tiles((rows.size() + m1 - 1) / m1);
  for (const std::int32_t row : rows) {
    const ColumnSet columns = columns_of(matrix, row);
    Tile& tile = tiles[choose_tile(tiles, columns, m1, matrix.nnz())];
    tile.nnz += static_cast<std::int64_t>(columns.size());
    tile.columns = merge(tile.columns, columns);
    tile.rows.push_back(row);
  }
  reorder::RowTiles result;
  for (const Tile& tile : tiles) result.push_back(tile.rows);
  return result;
}

/// The place in `free` of the row with the smallest share of columns new to `tile`; ties go to the
/// larger overlap, then to the earlier row.
inline std::size_t closest_row(const CsrMatrix& matrix, const std::vector<std::int32_t>& free,
                               const ColumnSet& tile) {
  std::size_t best = 0;
  std::size_t best_new = 1;
  std::size_t best_nnz = 1;
  for (std::size_t place = 0; place < free.size(); ++place) {
    const ColumnSet columns = columns_of(matrix, free[place]);
    const std::size_t added = merge(tile, columns).size() - tile.size();
    const std::size_t overlap = columns.size() - added;
    const bool smaller = added * best_nnz < best_new * columns.size();
    const bool equal = added * best_nnz == best_new * columns.size();
    if (smaller || (equal && overlap > best_nnz - best_new)) {
      best = place;
      best_new = added;
      best_nnz = columns.size();
    }
  }
  return best;
}

/// The greedy growth of `similarity`, before rows change places.
inline reorder::RowTiles group_similar(const CsrMatrix& matrix, std::size_t m1) {
  std::vector<std::int32_t> free = rows_by_nnz(matrix);
  reorder::RowTiles tiles;
  ColumnSet columns;
  while (!free.empty()) {
    if (tiles.empty() || tiles.back().size() == m1) {
      tiles.emplace_back();
      columns.clear();
    }
    const std::size_t place = closest_row(matrix, free, columns);
    columns = merge(columns, columns_of(matrix, free[place]));
    tiles.back().push_back(free[place]);
    free.erase(free.begin() + static_cast<std::ptrdiff_t>(place));
  }
  return tiles;
}

inline std::int64_t nnc_sum(const CsrMatrix& matrix, const reorder::RowTiles& tiles) {
  std::size_t sum = 0;
  for (const auto& tile : tiles) {
    ColumnSet columns;
    for (const std::int32_t row : tile) columns = merge(columns, columns_of(matrix, row));
    sum += columns.size();
  }
  return static_cast<std::int64_t>(sum);
}

}  // namespace spjit::reference

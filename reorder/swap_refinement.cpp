#include <algorithm>
#include <utility>

#include "reorder/algorithms.hpp"

namespace spjit::reorder {
namespace {

/// The rows of some consecutive tiles, numbered tile after tile: place p belongs to `tile_of[p]`,
/// and tile t has the places from `tile_begin[t]` to `tile_begin[t + 1]`.
struct Block {
  RowSubset rows;
  std::vector<std::int32_t> tile_of;
  std::vector<std::int32_t> tile_begin = {0};
  std::int64_t tiles = 0;
};

/// Leaves out columns with a single row: whichever tile that row is in pays for it.
void drop_single_columns(RowSubset& rows, const Cancellation& cancel) {
  std::vector<std::int32_t> number = filled(rows.cols, std::int32_t{-1}, cancel);
  CancelPace pace(cancel);
  std::vector<std::int64_t> counts;
  for (std::size_t column = 0; column < number.size(); ++column) {
    pace.spend(1);
    if (rows.col_counts[column] < 2) continue;
    number[column] = static_cast<std::int32_t>(counts.size());
    counts.push_back(rows.col_counts[column]);
  }
  std::size_t kept = 0;
  std::size_t read = 0;
  for (std::size_t row = 0; row < rows.matrix_rows.size(); ++row) {
    pace.spend(1 + rows.row_nnz(static_cast<std::int64_t>(row)));
    for (const auto last = at(rows.row_ptrs[row + 1]); read < last; ++read) {
      const std::int32_t column = number[at(rows.col_idxs[read])];
      if (column >= 0) rows.col_idxs[kept++] = column;
    }
    rows.row_ptrs[row + 1] = static_cast<std::int64_t>(kept);
  }
  rows.col_idxs.resize(kept);
  rows.cols = static_cast<std::int64_t>(counts.size());
  rows.col_counts = std::move(counts);
}

Block make_block(const CsrMatrix& matrix, std::span<const std::vector<std::int32_t>> tiles,
                 const Cancellation& cancel) {
  Block block;
  std::vector<std::int32_t> matrix_rows;
  for (const auto& tile : tiles) {
    matrix_rows.insert(matrix_rows.end(), tile.begin(), tile.end());
    block.tile_of.insert(block.tile_of.end(), tile.size(), static_cast<std::int32_t>(block.tiles));
    block.tile_begin.push_back(static_cast<std::int32_t>(block.tile_of.size()));
    ++block.tiles;
  }
  block.rows = take_rows(matrix, matrix_rows, cancel);
  drop_single_columns(block.rows, cancel);
  return block;
}

bool is_affordable(const Block& block, std::int64_t block_work) {
  std::int64_t visits = 0;
  for (const std::int64_t count : block.rows.col_counts) {
    visits += count * std::min(count, block.tiles);
  }
  const std::int64_t entries = block.tiles * (block.rows.cols + block.rows.rows());
  return std::max(visits, entries) <= block_work;
}

/// Moving row r out of tile A and row s of tile B in saves
/// `unique(r) - new(s, A) - (columns of both that only r has in A)`, and likewise the other way.
/// `new(row, tile)` (columns the tile lacks) and `unique(row)` (columns only this row has in its
/// tile) are kept up to date; the columns of both are counted only for pairs that could still win.
class SwapSearch {
 public:
  explicit SwapSearch(Block block)
      : block_(std::move(block)),
        row_count_(block_.rows.rows()),
        rows_of_column_(list_rows_by_column(block_.rows)),
        cover_(at(block_.tiles * block_.rows.cols)),
        new_(at(block_.tiles * row_count_)),
        unique_(at(row_count_)),
        in_row_(at(block_.rows.cols)),
        row_at_(at(row_count_)) {
    for (std::int32_t place = 0; place < row_count_; ++place) {
      row_at_[at(place)] = place;
      for (std::int64_t tile = 0; tile < block_.tiles; ++tile) {
        new_count(tile, place) = static_cast<std::int32_t>(block_.rows.row_nnz(place));
      }
    }
    for (std::int32_t place = 0; place < row_count_; ++place) add_row(tile_at(place), place);
    for (std::int32_t place = 0; place < row_count_; ++place) update_unique(place);
    visits_ = 0;  // the tables have their own limit
  }

  /// The block's matrix rows, place by place.
  [[nodiscard]] std::vector<std::int32_t> run(const RefinementLimits& limits) {
    for (int pass = 0; pass < limits.passes; ++pass) {
      bool changed = false;
      for (std::int32_t place = 0; place < row_count_ && visits_ < limits.block_work; ++place) {
        changed |= improve(place);
      }
      if (!changed) break;
    }
    std::vector<std::int32_t> matrix_rows;
    matrix_rows.reserve(row_at_.size());
    for (const std::int32_t row : row_at_) {
      matrix_rows.push_back(block_.rows.matrix_rows[at(row)]);
    }
    return matrix_rows;
  }

 private:
  [[nodiscard]] std::int32_t tile_at(std::int32_t place) const { return block_.tile_of[at(place)]; }
  [[nodiscard]] std::int32_t& new_count(std::int64_t tile, std::int64_t row) {
    return new_[at(tile * row_count_ + row)];
  }
  [[nodiscard]] std::int32_t& cover(std::int64_t tile, std::int64_t column) {
    return cover_[at(tile * block_.rows.cols + column)];
  }

  struct Swap {
    std::int32_t place = 0;   ///< of the other row
    std::int32_t change = 0;  ///< of the columns that all tiles have, fewer is better
  };

  bool improve(std::int32_t place) {
    const std::int32_t row = row_at_[at(place)];
    // A swap saves columns that one of the two rows alone has in its tile: let that one look.
    if (unique_[at(row)] == 0) return false;
    const std::int32_t tile = tile_at(place);
    visits_ += row_count_;
    mark_row(row, true);
    Swap best{place, 0};
    for (std::int32_t other = 0; other < block_.tiles; ++other) {
      if (other != tile) find_swap(row, tile, other, best);
    }
    mark_row(row, false);
    if (best.place == place) return false;
    swap_places(place, best.place);
    return true;
  }

  /// Who of `other_tile` had better change places with `row` of `tile`, if that beats `best`.
  void find_swap(std::int32_t row, std::int32_t tile, std::int32_t other_tile, Swap& best) {
    const std::int32_t* const new_here = &new_count(tile, 0);
    const std::int32_t* const unique = unique_.data();
    const std::int32_t own_change = new_count(other_tile, row) - unique_[at(row)];
    const std::int32_t last = block_.tile_begin[at(other_tile + 1)];
    for (std::int32_t other = block_.tile_begin[at(other_tile)]; other < last; ++other) {
      const std::int32_t other_row = row_at_[at(other)];
      std::int32_t change = own_change + new_here[other_row] - unique[other_row];
      if (change >= best.change) continue;
      change += shared_unique(other_row, tile, other_tile);
      if (change < best.change) best = {other, change};
    }
  }

  void mark_row(std::int32_t row, bool marked) {
    for (const std::int32_t column : block_.rows.columns(row)) in_row_[at(column)] = marked;
  }

  /// Columns of `other_row` and the marked row that one of them alone has in its tile: they stay
  /// covered through the swap.
  [[nodiscard]] std::int32_t shared_unique(std::int32_t other_row, std::int32_t tile,
                                           std::int32_t other_tile) {
    std::int32_t shared = 0;
    visits_ += block_.rows.row_nnz(other_row);
    for (const std::int32_t column : block_.rows.columns(other_row)) {
      if (!in_row_[at(column)]) continue;
      shared += (cover(tile, column) == 1 ? 1 : 0) + (cover(other_tile, column) == 1 ? 1 : 0);
    }
    return shared;
  }

  void swap_places(std::int32_t left, std::int32_t right) {
    remove_row(tile_at(left), row_at_[at(left)]);
    remove_row(tile_at(right), row_at_[at(right)]);
    std::swap(row_at_[at(left)], row_at_[at(right)]);
    add_row(tile_at(left), row_at_[at(left)]);
    add_row(tile_at(right), row_at_[at(right)]);
    update_tile_unique(left);
    update_tile_unique(right);
  }

  void add_row(std::int32_t tile, std::int32_t row) {
    for (const std::int32_t column : block_.rows.columns(row)) {
      if (cover(tile, column)++ != 0) continue;
      visits_ += block_.rows.col_counts[at(column)];
      for (const std::int32_t other : rows_of_column_.list(column)) --new_count(tile, other);
    }
  }

  void remove_row(std::int32_t tile, std::int32_t row) {
    for (const std::int32_t column : block_.rows.columns(row)) {
      if (--cover(tile, column) != 0) continue;
      visits_ += block_.rows.col_counts[at(column)];
      for (const std::int32_t other : rows_of_column_.list(column)) ++new_count(tile, other);
    }
  }

  void update_tile_unique(std::int32_t place) {
    const std::int32_t tile = tile_at(place);
    const std::int32_t last = block_.tile_begin[at(tile + 1)];
    for (std::int32_t other = block_.tile_begin[at(tile)]; other < last; ++other) {
      update_unique(other);
    }
  }

  void update_unique(std::int32_t place) {
    std::int32_t count = 0;
    for (const std::int32_t column : block_.rows.columns(row_at_[at(place)])) {
      count += cover(tile_at(place), column) == 1 ? 1 : 0;
    }
    unique_[at(row_at_[at(place)])] = count;
  }

  Block block_;
  std::int64_t row_count_;
  std::int64_t visits_ = 0;  // rows and nonzeros the search has looked at
  ColumnLists rows_of_column_;
  std::vector<std::int32_t> cover_;   // [tiles x cols] rows of the tile that have the column
  std::vector<std::int32_t> new_;     // [tiles x rows] columns of the row that the tile lacks
  std::vector<std::int32_t> unique_;  // [rows] columns no other row of its tile has
  std::vector<char> in_row_;          // [cols] the columns of the row being improved
  std::vector<std::int32_t> row_at_;  // [rows] which row is at a place
};

}  // namespace

RowTiles refine_by_swaps(const CsrMatrix& matrix, RowTiles tiles, const RefinementLimits& limits,
                         const Cancellation& cancel) {
  for (std::size_t first = 0; first < tiles.size();) {
    cancel.check();
    std::size_t last = first;
    std::int64_t rows = 0;
    while (last < tiles.size() && (last < first + 2 || rows < limits.block_rows)) {
      rows += static_cast<std::int64_t>(tiles[last++].size());
    }
    Block block = make_block(matrix, std::span(tiles).subspan(first, last - first), cancel);
    if (is_affordable(block, limits.block_work)) {
      const auto matrix_rows = SwapSearch(std::move(block)).run(limits);
      auto next = matrix_rows.begin();
      for (; first < last; ++first) {
        for (std::int32_t& row : tiles[first]) row = *next++;
      }
    }
    first = last;
  }
  return tiles;
}

}  // namespace spjit::reorder

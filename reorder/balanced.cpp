#include <algorithm>
#include <set>
#include <utility>

#include "reorder/algorithms.hpp"

namespace spjit::reorder {
namespace {

struct Tile {
  std::int64_t nnz = 0;
  std::vector<std::int32_t> rows;
  std::vector<std::int32_t> columns;  // the union of its rows' columns; its size is the nnc
};

struct TileShape {
  std::int64_t tiles = 0;
  std::int64_t m1 = 0;
  std::int64_t nnz_bound = 0;  // a tile with at least this many nonzeros is heavy
};

/// Algorithm 1 over one set of rows. The union of a row and a tile has
/// `nnc(tile) + nnz(row) - overlap` columns, and nnz(row) is the same for all tiles. Overlaps come
/// from an inverted index column -> tiles; of the tiles without overlap only the one with the least
/// nnc can win, which an ordered set gives. So no row looks at tiles it shares nothing with.
class BalancedGrouping {
 public:
  BalancedGrouping(const RowSubset& rows, const TileShape& shape, const Cancellation& cancel)
      : rows_(rows),
        pace_(cancel),
        shape_(shape),
        tiles_(at(shape.tiles)),
        is_candidate_(at(shape.tiles), true),
        overlaps_(at(shape.tiles)),
        tiles_of_column_(rows, cancel) {
    for (std::int32_t tile = 0; tile < shape_.tiles; ++tile) by_nnc_.emplace(0, tile);
  }

  [[nodiscard]] RowTiles run() {
    for (std::int32_t row = 0; row < rows_.rows(); ++row) {
      if (by_nnc_.empty()) admit_heavy_tiles();
      assign(row, smallest_union(row));
    }
    RowTiles result;
    for (Tile& tile : tiles_) result.push_back(std::move(tile.rows));
    return result;
  }

 private:
  using Ranked = std::pair<std::int64_t, std::int32_t>;  // (columns, tile): the smaller is better

  [[nodiscard]] std::int64_t nnc(std::int32_t tile) const {
    return static_cast<std::int64_t>(tiles_[at(tile)].columns.size());
  }

  [[nodiscard]] std::int32_t smallest_union(std::int32_t row) {
    touched_.clear();
    for (const std::int32_t column : rows_.columns(row)) {
      pace_.spend(std::ssize(tiles_of_column_.list(column)) + 1);
      tiles_of_column_.visit_kept(
          column, [this](std::int32_t tile) { return is_candidate_[at(tile)] != 0; },
          [this](std::int32_t tile) {
            if (overlaps_[at(tile)]++ == 0) touched_.push_back(tile);
          });
    }
    Ranked best = *by_nnc_.begin();
    for (const std::int32_t tile : touched_) {
      best = std::min(best, Ranked{nnc(tile) - overlaps_[at(tile)], tile});
      overlaps_[at(tile)] = 0;
    }
    return best.second;
  }

  void assign(std::int32_t row, std::int32_t number) {
    Tile& tile = tiles_[at(number)];
    by_nnc_.erase({nnc(number), number});
    // A candidate has all of its columns in the index.
    const std::size_t old_nnc = tile.columns.size();
    for (const std::int32_t column : rows_.columns(row)) {
      const std::span<const std::int32_t> tiles = tiles_of_column_.list(column);
      pace_.spend(std::ssize(tiles) + 1);
      if (std::find(tiles.begin(), tiles.end(), number) == tiles.end()) {
        tile.columns.push_back(column);
      }
    }
    tile.rows.push_back(rows_.matrix_rows[at(row)]);
    tile.nnz += rows_.row_nnz(row);

    const bool stays = has_room(tile) && (heavy_admitted_ || tile.nnz < shape_.nnz_bound);
    is_candidate_[at(number)] = stays;
    if (!stays) return;
    by_nnc_.emplace(nnc(number), number);
    for (std::size_t i = old_nnc; i < tile.columns.size(); ++i) {
      tiles_of_column_.push(tile.columns[i], number);
    }
  }

  /// Light tiles never come back once there are none: nnz only grows. From then on every tile with
  /// room counts.
  void admit_heavy_tiles() {
    heavy_admitted_ = true;
    tiles_of_column_.clear();
    for (std::int32_t number = 0; number < shape_.tiles; ++number) {
      if (!has_room(tiles_[at(number)])) continue;
      is_candidate_[at(number)] = true;
      by_nnc_.emplace(nnc(number), number);
      for (const std::int32_t column : tiles_[at(number)].columns) {
        pace_.spend(1);
        tiles_of_column_.push(column, number);
      }
    }
  }

  [[nodiscard]] bool has_room(const Tile& tile) const {
    return static_cast<std::int64_t>(tile.rows.size()) < shape_.m1;
  }

  const RowSubset& rows_;
  CancelPace pace_;
  TileShape shape_;
  bool heavy_admitted_ = false;
  std::vector<Tile> tiles_;
  std::set<Ranked> by_nnc_;  // the candidates: with room, and light until there are none
  std::vector<char> is_candidate_;
  std::vector<std::int64_t> overlaps_;
  std::vector<std::int32_t> touched_;  // tiles with overlaps_ > 0
  ColumnLists tiles_of_column_;
};

/// In turn, so that every shard has the same distribution of nnz. The last shards may lack rows for
/// their tiles; together they lack less than one tile.
std::vector<std::vector<std::int32_t>> deal_rows(std::span<const std::int32_t> rows,
                                                 std::span<const std::int64_t> capacities) {
  std::vector<std::vector<std::int32_t>> shards(capacities.size());
  std::size_t next = 0;
  for (const std::int32_t row : rows) {
    while (static_cast<std::int64_t>(shards[next].size()) == capacities[next]) {
      next = (next + 1) % shards.size();
    }
    shards[next].push_back(row);
    next = (next + 1) % shards.size();
  }
  return shards;
}

}  // namespace

RowTiles group_balanced(const CsrMatrix& matrix, std::span<const std::int32_t> rows,
                        std::int64_t m1, const GroupingLimits& limits, const Cancellation& cancel) {
  if (rows.empty()) return {};
  const RowSubset all = take_rows(matrix, rows, cancel);
  const std::int64_t tiles = (all.rows() - 1) / m1 + 1;
  // nnz < nnz(A) / T over the integers
  const std::int64_t nnz_bound = (all.nnz() - 1) / tiles + 1;
  const std::int64_t shards =
      count_shards(estimate_balanced_work(all, tiles), all.nnz(), tiles, limits);
  if (shards == 1) return BalancedGrouping(all, {tiles, m1, nnz_bound}, cancel).run();

  std::vector<std::int64_t> capacities(at(shards));
  for (std::int64_t shard = 0; shard < shards; ++shard) {
    capacities[at(shard)] = (tiles / shards + (shard < tiles % shards ? 1 : 0)) * m1;
  }
  RowTiles result;
  for (const auto& shard_rows : deal_rows(rows, capacities)) {
    const RowSubset shard = take_rows(matrix, shard_rows, cancel);
    const TileShape shape{(shard.rows() - 1) / m1 + 1, m1, nnz_bound};
    for (auto& tile : BalancedGrouping(shard, shape, cancel).run()) {
      result.push_back(std::move(tile));
    }
  }
  return result;
}

}  // namespace spjit::reorder

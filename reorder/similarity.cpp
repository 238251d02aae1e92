#include <algorithm>
#include <bit>
#include <utility>

#include "reorder/algorithms.hpp"

namespace spjit::reorder {
namespace {

constexpr std::int32_t k_no_row = -1;

/// How many rows the scan over all rows looks at in the time the one over a list looks at one.
constexpr std::int64_t k_dense_scan_gain = 8;
/// Rows whose largest share is remembered together; any size gives the same result.
constexpr std::int64_t k_chunk_rows = 128;
/// A share of two integers in single precision is off by less than three roundings of 2^-24.
constexpr float k_share_error = 1e-6F;

/// Grows one tile after the other. Overlaps of the free rows with the tile come from the inverted
/// index column -> rows: each column is walked once a tile, when it joins the union.
class SimilarityGrouping {
 public:
  SimilarityGrouping(const RowSubset& rows, std::int64_t m1, const Cancellation& cancel)
      : rows_(rows),
        m1_(m1),
        pace_(cancel),
        is_free_(at(rows.rows()), true),
        overlaps_(at(rows.rows())),
        free_over_nnz_(at(rows.rows())),
        chunk_shares_(at((rows.rows() - 1) / k_chunk_rows + 1)),
        rows_of_column_(list_rows_by_column(rows, cancel)),
        in_union_(filled(rows.cols, char{0}, cancel)) {
    for (std::int64_t row = 0; row < rows.rows(); ++row) {
      free_over_nnz_[at(row)] = 1.0F / static_cast<float>(rows.row_nnz(row));
    }
  }

  [[nodiscard]] RowTiles run() {
    RowTiles tiles;
    while (first_free_row() != k_no_row) {
      tiles.push_back(grow_tile());
    }
    return tiles;
  }

 private:
  [[nodiscard]] std::vector<std::int32_t> grow_tile() {
    std::vector<std::int32_t> tile;
    std::int32_t row = first_free_row();
    while (row != k_no_row) {
      tile.push_back(rows_.matrix_rows[at(row)]);
      is_free_[at(row)] = false;
      free_over_nnz_[at(row)] = 0;
      if (static_cast<std::int64_t>(tile.size()) == m1_) break;
      add_columns(row);
      row = next_row();
    }
    for (const std::int32_t column : union_) in_union_[at(column)] = false;
    for (const std::int32_t touched : touched_) overlaps_[at(touched)] = 0;
    union_.clear();
    touched_.clear();
    return tile;
  }

  void add_columns(std::int32_t row) {
    for (const std::int32_t column : rows_.columns(row)) {
      pace_.spend(1);
      if (in_union_[at(column)]) continue;
      pace_.spend(std::ssize(rows_of_column_.list(column)));
      in_union_[at(column)] = true;
      union_.push_back(column);
      rows_of_column_.visit_kept(
          column, [this](std::int32_t other) { return is_free_[at(other)] != 0; },
          [this](std::int32_t other) {
            if (overlaps_[at(other)]++ == 0) touched_.push_back(other);
          });
    }
  }

  [[nodiscard]] std::int32_t next_row() {
    const std::int64_t span = rows_.rows() - first_free_row_or_end();
    const auto touched = static_cast<std::int64_t>(touched_.size());
    pace_.spend(1 + std::min(touched, span / k_dense_scan_gain));
    const std::int32_t best =
        touched * k_dense_scan_gain < span ? closest_touched_row() : closest_row();
    return best == k_no_row ? first_free_row() : best;
  }

  [[nodiscard]] std::int32_t closest_touched_row() {
    std::int32_t best = k_no_row;
    for (std::size_t i = 0; i < touched_.size();) {
      const std::int32_t row = touched_[i];
      if (!is_free_[at(row)]) {
        touched_[i] = touched_.back();
        touched_.pop_back();
        continue;
      }
      if (best == k_no_row || is_closer(row, best)) best = row;
      ++i;
    }
    return best;
  }

  /// The same row as closest_touched_row(): a scan over all rows in single precision that the
  /// compiler vectorizes finds the largest share, and only rows within its rounding error of that
  /// are compared exactly.
  [[nodiscard]] std::int32_t closest_row() {
    const std::int64_t first_chunk = first_free_row_or_end() / k_chunk_rows;
    float largest = 0;
    for (std::int64_t chunk = first_chunk; chunk < chunks(); ++chunk) {
      chunk_shares_[at(chunk)] = largest_share(chunk);
      largest = std::max(largest, chunk_shares_[at(chunk)]);
    }
    std::int32_t best = k_no_row;
    if (largest == 0) return best;
    const float close = largest * (1 - k_share_error);
    for (std::int64_t chunk = first_chunk; chunk < chunks(); ++chunk) {
      if (chunk_shares_[at(chunk)] < close) continue;
      for (auto row = static_cast<std::int32_t>(chunk * k_chunk_rows); row < chunk_end(chunk);
           ++row) {
        if (share(row) < close) continue;
        if (best == k_no_row || is_closer(row, best)) best = row;
      }
    }
    return best;
  }

  [[nodiscard]] float share(std::int64_t row) const {
    return static_cast<float>(overlaps_[at(row)]) * free_over_nnz_[at(row)];
  }

  [[nodiscard]] float largest_share(std::int64_t chunk) const {
    // Floats that are not negative are ordered as their bits are, and integers may be compared in
    // any order, which vectorizing needs.
    std::int32_t largest = 0;
    const std::int64_t end = chunk_end(chunk);
    for (std::int64_t row = chunk * k_chunk_rows; row < end; ++row) {
      largest = std::max(largest, std::bit_cast<std::int32_t>(share(row)));
    }
    return std::bit_cast<float>(largest);
  }

  [[nodiscard]] std::int64_t chunks() const { return (rows_.rows() - 1) / k_chunk_rows + 1; }
  [[nodiscard]] std::int64_t chunk_end(std::int64_t chunk) const {
    return std::min(rows_.rows(), (chunk + 1) * k_chunk_rows);
  }

  /// overlap / nnz, compared exactly: the smallest share of new columns is the largest of known
  /// ones.
  [[nodiscard]] bool is_closer(std::int32_t left, std::int32_t right) const {
    const std::int64_t left_overlap = overlaps_[at(left)];
    const std::int64_t right_overlap = overlaps_[at(right)];
    const std::int64_t left_share = left_overlap * rows_.row_nnz(right);
    const std::int64_t right_share = right_overlap * rows_.row_nnz(left);
    if (left_share != right_share) return left_share > right_share;
    if (left_overlap != right_overlap) return left_overlap > right_overlap;
    return left < right;
  }

  [[nodiscard]] std::int64_t first_free_row_or_end() {
    while (first_free_ < rows_.rows() && !is_free_[at(first_free_)]) ++first_free_;
    return first_free_;
  }
  [[nodiscard]] std::int32_t first_free_row() {
    const std::int64_t row = first_free_row_or_end();
    return row < rows_.rows() ? static_cast<std::int32_t>(row) : k_no_row;
  }

  const RowSubset& rows_;
  std::int64_t m1_;
  CancelPace pace_;
  std::int64_t first_free_ = 0;
  std::vector<char> is_free_;
  std::vector<std::int32_t> overlaps_;
  std::vector<float> free_over_nnz_;   // 1 / nnz of a free row, 0 of a taken one
  std::vector<float> chunk_shares_;    // scratch of closest_row()
  std::vector<std::int32_t> touched_;  // rows with overlaps_ > 0, some of them taken since
  std::vector<std::int32_t> union_;
  ColumnLists rows_of_column_;
  std::vector<char> in_union_;
};

}  // namespace

RowTiles group_similar(const CsrMatrix& matrix, std::span<const std::int32_t> rows, std::int64_t m1,
                       const GroupingLimits& limits, const Cancellation& cancel) {
  if (rows.empty()) return {};
  const RowSubset all = take_rows(matrix, rows, cancel);
  const std::int64_t tiles = (all.rows() - 1) / m1 + 1;
  const std::int64_t shards =
      count_shards(estimate_similarity_work(all, m1), all.nnz(), tiles, limits);
  if (shards == 1) return SimilarityGrouping(all, m1, cancel).run();

  RowTiles result;
  const std::int64_t shard_rows = ((tiles - 1) / shards + 1) * m1;
  for (std::int64_t first = 0; first < all.rows(); first += shard_rows) {
    const std::int64_t count = std::min(shard_rows, all.rows() - first);
    const RowSubset shard = take_rows(matrix, rows.subspan(at(first), at(count)), cancel);
    for (auto& tile : SimilarityGrouping(shard, m1, cancel).run())
      result.push_back(std::move(tile));
  }
  return result;
}

}  // namespace spjit::reorder

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "matrix/random.hpp"
#include "reorder/row_grouping.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// Entries that are looked at for one m1, about; of longer matrices every so-manieth tile.
constexpr std::int64_t k_enough_entries = 200'000;

/// Two min-hashes of a row's columns (Broder, "On the resemblance and containment of documents",
/// 1997): two rows have the same one with the probability that a column of either is in both.
struct Signature {
  std::uint64_t first = ~std::uint64_t{0};
  std::uint64_t second = ~std::uint64_t{0};
  std::int64_t nnz = 0;
};

Signature sign(const CsrMatrix& matrix, std::size_t row, CancelPace& pace) {
  constexpr std::uint64_t k_other = 0x5851F42D4C957F2DU;
  Signature signature;
  pace.pieces(
      matrix.row_ptrs[row], matrix.row_ptrs[row + 1], [&](std::int64_t begin, std::int64_t end) {
        for (auto i = static_cast<std::size_t>(begin); std::cmp_less(i, end); ++i) {
          const std::uint64_t hash = split_mix(static_cast<std::uint64_t>(matrix.col_idxs[i]));
          signature.first = std::min(signature.first, hash);
          signature.second = std::min(signature.second, hash * k_other);
        }
      });
  signature.nnz = matrix.row_ptrs[row + 1] - matrix.row_ptrs[row];
  return signature;
}

/// A row that is not empty.
struct SignedRow {
  std::int32_t row = 0;
  Signature signature;
};

}  // namespace

EstimatedGrouping::EstimatedGrouping(const CsrMatrix& matrix, Cancellation cancel)
    : matrix_(matrix), cancel_(std::move(cancel)), columns_(matrix.col_idxs, matrix.cols, cancel_) {
  std::vector<SignedRow> rows;
  CancelPace pace(cancel_);
  for (std::size_t row = 0; row + 1 < matrix.row_ptrs.size(); ++row) {
    pace.spend(1);
    if (matrix.row_ptrs[row] == matrix.row_ptrs[row + 1]) continue;
    rows.push_back({static_cast<std::int32_t>(row), sign(matrix, row, pace)});
  }
  std::ranges::stable_sort(rows, [&](const SignedRow& left, const SignedRow& right) {
    pace.spend(1);
    const Signature& a = left.signature;
    const Signature& b = right.signature;
    return std::tie(a.first, a.second, a.nnz) < std::tie(b.first, b.second, b.nnz);
  });
  order_.reserve(rows.size());
  for (const SignedRow& row : rows) order_.push_back(row.row);
}

GroupingStatistics EstimatedGrouping::statistics(std::int64_t m1) const {
  if (m1 < 1) throw InvalidArgument(fmt::format("m1 is {}; expected at least 1 row a tile", m1));
  GroupingStatistics statistics;
  const auto rows = std::ssize(order_);
  if (rows == 0) return statistics;
  statistics.tiles = (rows - 1) / m1 + 1;
  const std::int64_t step = std::max<std::int64_t>(matrix_.nnz() / k_enough_entries, 1);
  const std::span<const std::int32_t> numbers = columns_.of_entries();
  std::vector<std::int64_t> seen_in = filled(columns_.count(), std::int64_t{-1}, cancel_);
  CancelPace pace(cancel_);
  std::int64_t columns = 0;
  std::int64_t entries = 0;
  for (std::int64_t tile = 0; tile < statistics.tiles; tile += step) {
    const std::int64_t end = m1 < rows - tile * m1 ? (tile + 1) * m1 : rows;
    for (std::int64_t i = tile * m1; i < end; ++i) {
      const auto row = static_cast<std::size_t>(order_[static_cast<std::size_t>(i)]);
      entries += matrix_.row_ptrs[row + 1] - matrix_.row_ptrs[row];
      pace.pieces(matrix_.row_ptrs[row], matrix_.row_ptrs[row + 1],
                  [&](std::int64_t first, std::int64_t last) {
                    for (auto k = static_cast<std::size_t>(first); std::cmp_less(k, last); ++k) {
                      const auto column = static_cast<std::size_t>(numbers[k]);
                      if (std::exchange(seen_in[column], tile) != tile) ++columns;
                    }
                  });
    }
  }
  statistics.fmas_per_load = static_cast<double>(entries) / static_cast<double>(columns);
  statistics.nnc_sum =
      step == 1 ? columns
                : std::llround(static_cast<double>(matrix_.nnz()) / statistics.fmas_per_load);
  statistics.nnc_mean =
      static_cast<double>(statistics.nnc_sum) / static_cast<double>(statistics.tiles);
  return statistics;
}

}  // namespace spjit

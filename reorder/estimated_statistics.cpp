#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
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

Signature sign(const CsrMatrix& matrix, std::size_t row) {
  constexpr std::uint64_t k_other = 0x5851F42D4C957F2DU;
  Signature signature;
  for (std::int64_t i = matrix.row_ptrs[row]; i < matrix.row_ptrs[row + 1]; ++i) {
    const auto column = static_cast<std::uint64_t>(matrix.col_idxs[static_cast<std::size_t>(i)]);
    const std::uint64_t hash = split_mix(column);
    signature.first = std::min(signature.first, hash);
    signature.second = std::min(signature.second, hash * k_other);
  }
  signature.nnz = matrix.row_ptrs[row + 1] - matrix.row_ptrs[row];
  return signature;
}

}  // namespace

EstimatedGrouping::EstimatedGrouping(const CsrMatrix& matrix) : matrix_(matrix) {
  std::vector<Signature> signatures(static_cast<std::size_t>(matrix.rows));
  for (std::size_t row = 0; row < signatures.size(); ++row) {
    signatures[row] = sign(matrix, row);
    if (signatures[row].nnz > 0) order_.push_back(static_cast<std::int32_t>(row));
  }
  std::ranges::stable_sort(order_, [&](std::int32_t left, std::int32_t right) {
    const Signature& a = signatures[static_cast<std::size_t>(left)];
    const Signature& b = signatures[static_cast<std::size_t>(right)];
    return std::tie(a.first, a.second, a.nnz) < std::tie(b.first, b.second, b.nnz);
  });
}

GroupingStatistics EstimatedGrouping::statistics(std::int64_t m1) const {
  if (m1 < 1) throw InvalidArgument(fmt::format("m1 is {}; expected at least 1 row a tile", m1));
  GroupingStatistics statistics;
  const auto rows = std::ssize(order_);
  if (rows == 0) return statistics;
  statistics.tiles = (rows - 1) / m1 + 1;
  const std::int64_t step = std::max<std::int64_t>(matrix_.nnz() / k_enough_entries, 1);
  std::vector<std::int64_t> seen_in(static_cast<std::size_t>(matrix_.cols), -1);
  std::int64_t columns = 0;
  std::int64_t entries = 0;
  for (std::int64_t tile = 0; tile < statistics.tiles; tile += step) {
    const std::int64_t end = m1 < rows - tile * m1 ? (tile + 1) * m1 : rows;
    for (std::int64_t i = tile * m1; i < end; ++i) {
      const auto row = static_cast<std::size_t>(order_[static_cast<std::size_t>(i)]);
      for (std::int64_t k = matrix_.row_ptrs[row]; k < matrix_.row_ptrs[row + 1]; ++k) {
        const auto column = static_cast<std::size_t>(matrix_.col_idxs[static_cast<std::size_t>(k)]);
        if (seen_in[column] != tile) ++columns;
        seen_in[column] = tile;
        ++entries;
      }
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

GroupingStatistics estimate_statistics(const CsrMatrix& matrix, std::int64_t m1) {
  return EstimatedGrouping(matrix).statistics(m1);
}

}  // namespace spjit

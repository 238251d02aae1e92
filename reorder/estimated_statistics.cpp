#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "matrix/non_empty_rows.hpp"
#include "reorder/row_grouping.hpp"
#include "spjit/error.hpp"

namespace spjit {

GroupingStatistics estimate_statistics(const CsrMatrix& matrix, std::int64_t m1) {
  if (m1 < 1) throw InvalidArgument(fmt::format("m1 is {}; expected at least 1 row a tile", m1));
  GroupingStatistics statistics;
  const std::int64_t rows = non_empty_rows(matrix);
  if (rows == 0) return statistics;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(matrix.cols), 0);
  for (const std::int32_t column : matrix.col_idxs) ++counts[static_cast<std::size_t>(column)];
  const auto height = static_cast<double>(std::min(m1, rows));
  for (const std::int64_t count : counts) {
    const double share = static_cast<double>(count) / static_cast<double>(rows);
    statistics.nnc_mean += 1 - std::pow(1 - std::min(share, 1.0), height);
  }
  statistics.tiles = (rows + m1 - 1) / m1;
  const double sum = statistics.nnc_mean * static_cast<double>(statistics.tiles);
  statistics.nnc_sum = std::max<std::int64_t>(std::llround(sum), 1);
  statistics.fmas_per_load =
      static_cast<double>(matrix.nnz()) / static_cast<double>(statistics.nnc_sum);
  return statistics;
}

}  // namespace spjit

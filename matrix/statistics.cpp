#include <algorithm>
#include <cmath>

#include "spjit/matrix.hpp"

namespace spjit {
namespace {

std::int64_t count_nonempty_cols(const CsrMatrix& matrix) {
  // A flag a column is the fast way, but 2^31 columns with three entries must not cost 2 GiB.
  if (matrix.cols <= 4 * matrix.nnz() + 65536) {
    std::vector<unsigned char> seen(static_cast<std::size_t>(matrix.cols), 0);
    for (const std::int32_t col : matrix.col_idxs) {
      seen[static_cast<std::size_t>(col)] = 1;
    }
    return std::count(seen.begin(), seen.end(), 1);
  }
  std::vector<std::int32_t> cols = matrix.col_idxs;
  std::sort(cols.begin(), cols.end());
  return std::unique(cols.begin(), cols.end()) - cols.begin();
}

// The fields that come from the lengths of the rows.
MatrixStatistics row_statistics(const CsrMatrix& matrix) {
  MatrixStatistics stats;
  stats.rows = matrix.rows;
  stats.cols = matrix.cols;
  stats.nnz = matrix.nnz();
  if (matrix.rows == 0) {
    return stats;
  }
  stats.row_nnz_mean = static_cast<double>(stats.nnz) / static_cast<double>(matrix.rows);
  stats.row_nnz_min = matrix.row_ptrs[1] - matrix.row_ptrs[0];
  double squares = 0;
  for (std::size_t row = 0; row + 1 < matrix.row_ptrs.size(); ++row) {
    const std::int64_t row_nnz = matrix.row_ptrs[row + 1] - matrix.row_ptrs[row];
    const double off = static_cast<double>(row_nnz) - stats.row_nnz_mean;
    squares += off * off;
    stats.row_nnz_min = std::min(stats.row_nnz_min, row_nnz);
    stats.row_nnz_max = std::max(stats.row_nnz_max, row_nnz);
    stats.empty_rows += row_nnz == 0 ? 1 : 0;
  }
  if (stats.nnz > 0) {
    stats.row_nnz_cv = std::sqrt(squares / static_cast<double>(matrix.rows)) / stats.row_nnz_mean;
  }
  return stats;
}

}  // namespace

MatrixStatistics compute_statistics(const CsrMatrix& matrix) {
  MatrixStatistics stats = row_statistics(matrix);
  if (matrix.rows > 0 && matrix.cols > 0) {
    const double cells = static_cast<double>(matrix.rows) * static_cast<double>(matrix.cols);
    stats.sparsity = 1.0 - static_cast<double>(stats.nnz) / cells;
  }
  stats.empty_cols = matrix.cols - count_nonempty_cols(matrix);
  stats.explicit_zeros = std::count(matrix.values.begin(), matrix.values.end(), 0.0F);
  return stats;
}

}  // namespace spjit

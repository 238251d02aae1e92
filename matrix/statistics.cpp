#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include "matrix/cancellable.hpp"
#include "matrix/column_numbers.hpp"
#include "spjit/matrix.hpp"

namespace spjit {
namespace {

std::int64_t count_nonempty_cols(const CsrMatrix& matrix, const Cancellation& cancel) {
  if (!columns_are_few(matrix.cols, matrix.nnz())) {
    std::vector<std::int32_t> columns;
    append_in_pieces(columns, std::span(matrix.col_idxs), cancel);
    return number_used_columns(columns, matrix.cols, cancel);
  }
  // A flag a column is the fastest way.
  std::vector<unsigned char> seen = filled(matrix.cols, static_cast<unsigned char>(0), cancel);
  std::int64_t count = 0;
  for_each_piece(matrix.nnz(), cancel, [&](std::int64_t begin, std::int64_t end) {
    const std::int32_t* const columns = matrix.col_idxs.data();
    for (std::int64_t i = begin; i < end; ++i) seen[static_cast<std::size_t>(columns[i])] = 1;
  });
  for_each_piece(matrix.cols, cancel, [&](std::int64_t begin, std::int64_t end) {
    count += std::count(seen.begin() + begin, seen.begin() + end, 1);
  });
  return count;
}

}  // namespace

MatrixStatistics row_statistics(const CsrMatrix& matrix, const Cancellation& cancel) {
  MatrixStatistics stats;
  stats.rows = matrix.rows;
  stats.cols = matrix.cols;
  stats.nnz = matrix.nnz();
  if (matrix.rows == 0) {
    return stats;
  }
  if (matrix.cols > 0) {
    const double cells = static_cast<double>(matrix.rows) * static_cast<double>(matrix.cols);
    stats.sparsity = 1.0 - static_cast<double>(stats.nnz) / cells;
  }
  stats.row_nnz_mean = static_cast<double>(stats.nnz) / static_cast<double>(matrix.rows);
  stats.row_nnz_min = matrix.row_ptrs[1] - matrix.row_ptrs[0];
  double squares = 0;
  for_each_piece(matrix.rows, cancel, [&](std::int64_t begin, std::int64_t end) {
    for (auto row = static_cast<std::size_t>(begin); std::cmp_less(row, end); ++row) {
      const std::int64_t row_nnz = matrix.row_ptrs[row + 1] - matrix.row_ptrs[row];
      const double off = static_cast<double>(row_nnz) - stats.row_nnz_mean;
      squares += off * off;
      stats.row_nnz_min = std::min(stats.row_nnz_min, row_nnz);
      stats.row_nnz_max = std::max(stats.row_nnz_max, row_nnz);
      stats.empty_rows += row_nnz == 0 ? 1 : 0;
    }
  });
  if (stats.nnz > 0) {
    stats.row_nnz_cv = std::sqrt(squares / static_cast<double>(matrix.rows)) / stats.row_nnz_mean;
  }
  return stats;
}

MatrixStatistics compute_statistics(const CsrMatrix& matrix, const Cancellation& cancel) {
  MatrixStatistics stats = row_statistics(matrix, cancel);
  stats.empty_cols = matrix.cols - count_nonempty_cols(matrix, cancel);
  for_each_piece(matrix.nnz(), cancel, [&](std::int64_t begin, std::int64_t end) {
    stats.explicit_zeros +=
        std::count(matrix.values.begin() + begin, matrix.values.begin() + end, 0.0F);
  });
  return stats;
}

MatrixStatistics compute_statistics(const CsrMatrix& matrix) {
  return compute_statistics(matrix, {});
}

}  // namespace spjit

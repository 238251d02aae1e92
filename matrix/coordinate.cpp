#include "matrix/coordinate.hpp"

#include <algorithm>

namespace spjit {

CsrMatrix csr_from_coordinates(const std::vector<CoordinateEntry>& entries, std::int64_t rows,
                               std::int64_t cols) {
  CsrMatrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  // row_ptrs[r] counts row r - 1, then runs ahead as that row's write position, and so ends up as
  // the start of row r with no second array.
  matrix.row_ptrs.assign(static_cast<std::size_t>(rows) + 1, 0);
  std::vector<std::int64_t>& ptrs = matrix.row_ptrs;
  for (const CoordinateEntry& entry : entries) {
    ++ptrs[static_cast<std::size_t>(entry.row) + 1];
  }
  std::int64_t start = 0;
  for (std::size_t row = 1; row < ptrs.size(); ++row) {
    const std::int64_t row_nnz = ptrs[row];
    ptrs[row] = start;
    start += row_nnz;
  }
  matrix.col_idxs.resize(entries.size());
  matrix.values.resize(entries.size());
  for (const CoordinateEntry& entry : entries) {
    const auto at = static_cast<std::size_t>(ptrs[static_cast<std::size_t>(entry.row) + 1]++);
    matrix.col_idxs[at] = entry.col;
    matrix.values[at] = entry.value;
  }
  matrix.sort_columns();
  return matrix;
}

std::optional<Position> find_duplicate(const CsrMatrix& matrix) {
  for (std::size_t row = 0; row + 1 < matrix.row_ptrs.size(); ++row) {
    const auto begin = matrix.col_idxs.begin() + matrix.row_ptrs[row];
    const auto end = matrix.col_idxs.begin() + matrix.row_ptrs[row + 1];
    const auto twin = std::adjacent_find(begin, end);
    if (twin != end) {
      return Position{static_cast<std::int64_t>(row), *twin};
    }
  }
  return std::nullopt;
}

}  // namespace spjit

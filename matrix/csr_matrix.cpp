#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "matrix/limits.hpp"
#include "spjit/error.hpp"
#include "spjit/matrix.hpp"

namespace spjit {
namespace {

std::size_t to_size(std::int64_t value) { return static_cast<std::size_t>(value); }

void validate_dimension(const char* what, std::int64_t size) {
  if (size < 0 || size > k_max_dimension) {
    throw InvalidMatrix(
        fmt::format("matrix has {} {}: expected 0 to {}", size, what, k_max_dimension));
  }
}

void validate_row_ptrs(const CsrMatrix& matrix) {
  const std::vector<std::int64_t>& offsets = matrix.row_ptrs;
  if (offsets.size() != to_size(matrix.rows) + 1) {
    throw InvalidMatrix(fmt::format("row_ptrs has {} entries: expected rows + 1 = {}",
                                    offsets.size(), matrix.rows + 1));
  }
  if (offsets.front() != 0) {
    throw InvalidMatrix(fmt::format("row_ptrs[0] is {}: expected 0", offsets.front()));
  }
  const auto drop = std::adjacent_find(offsets.begin(), offsets.end(), std::greater<>());
  if (drop != offsets.end()) {
    throw InvalidMatrix(fmt::format("row_ptrs falls from {} to {} at row {}: expected ascending",
                                    drop[0], drop[1], drop - offsets.begin()));
  }
  if (offsets.back() != matrix.nnz()) {
    throw InvalidMatrix(fmt::format("row_ptrs ends at {}: expected the {} entries of col_idxs",
                                    offsets.back(), matrix.nnz()));
  }
}

// Rows in ascending order need no memory; only the others are copied and sorted.
void validate_row(const CsrMatrix& matrix, std::int64_t row) {
  const auto begin = matrix.col_idxs.begin() + matrix.row_ptrs[to_size(row)];
  const auto end = matrix.col_idxs.begin() + matrix.row_ptrs[to_size(row) + 1];
  bool ascending = true;
  for (auto at = begin; at != end; ++at) {
    if (*at < 0 || *at >= matrix.cols) {
      throw InvalidMatrix(
          fmt::format("row {} has column {}: expected 0 <= column < {}", row, *at, matrix.cols));
    }
    ascending &= at == begin || at[-1] < *at;
  }
  if (ascending) {
    return;
  }
  std::vector<std::int32_t> sorted(begin, end);
  std::sort(sorted.begin(), sorted.end());
  const auto twin = std::adjacent_find(sorted.begin(), sorted.end());
  if (twin != sorted.end()) {
    throw InvalidMatrix(
        fmt::format("row {} has column {} twice: expected each column once", row, *twin));
  }
}

struct Entry {
  std::int32_t col;
  float value;
};

}  // namespace

void CsrMatrix::validate() const {
  validate_dimension("rows", rows);
  validate_dimension("cols", cols);
  validate_row_ptrs(*this);
  if (values.size() != col_idxs.size()) {
    throw InvalidMatrix(fmt::format("values has {} entries: expected as many as col_idxs, {}",
                                    values.size(), col_idxs.size()));
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    validate_row(*this, row);
  }
}

void CsrMatrix::sort_columns() {
  std::vector<Entry> entries;
  for (std::size_t row = 0; row + 1 < row_ptrs.size(); ++row) {
    const std::size_t begin = to_size(row_ptrs[row]);
    const std::size_t end = to_size(row_ptrs[row + 1]);
    if (std::is_sorted(col_idxs.begin() + row_ptrs[row], col_idxs.begin() + row_ptrs[row + 1])) {
      continue;
    }
    entries.clear();
    for (std::size_t at = begin; at < end; ++at) {
      entries.push_back({col_idxs[at], values[at]});
    }
    std::stable_sort(entries.begin(), entries.end(),
                     [](const Entry& a, const Entry& b) { return a.col < b.col; });
    for (std::size_t at = begin; at < end; ++at) {
      col_idxs[at] = entries[at - begin].col;
      values[at] = entries[at - begin].value;
    }
  }
}

std::int64_t CsrMatrix::drop_explicit_zeros() {
  const std::int64_t before = nnz();
  std::size_t kept = 0;
  std::size_t at = 0;
  for (std::size_t row = 0; row + 1 < row_ptrs.size(); ++row) {
    const std::size_t end = to_size(row_ptrs[row + 1]);
    for (; at < end; ++at) {
      if (values[at] != 0.0F) {
        col_idxs[kept] = col_idxs[at];
        values[kept] = values[at];
        ++kept;
      }
    }
    row_ptrs[row + 1] = static_cast<std::int64_t>(kept);
  }
  col_idxs.resize(kept);
  values.resize(kept);
  return before - nnz();
}

CsrMatrix csr_from_dense(const float* dense, std::int64_t rows, std::int64_t cols) {
  if (rows < 0 || rows > k_max_dimension || cols < 0 || cols > k_max_dimension) {
    throw InvalidArgument(fmt::format("csr_from_dense was given {} x {}: expected 0 to {} each",
                                      rows, cols, k_max_dimension));
  }
  if (dense == nullptr && rows > 0 && cols > 0) {
    throw InvalidArgument(
        fmt::format("csr_from_dense was given a null pointer for {} x {} values", rows, cols));
  }
  // Counted first: growing the vectors instead would hold twice the entries for a while.
  const std::int64_t cells = rows * cols;  // below 2^62
  if (cells > std::numeric_limits<std::int64_t>::max() / std::int64_t{sizeof(float)}) {
    throw InvalidArgument(
        fmt::format("csr_from_dense was given {} x {}: no array has that many values", rows, cols));
  }
  const auto nnz = std::count_if(dense, dense + cells, [](float value) { return value != 0.0F; });
  CsrMatrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  matrix.row_ptrs.reserve(to_size(rows) + 1);
  matrix.col_idxs.reserve(to_size(nnz));
  matrix.values.reserve(to_size(nnz));
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* line = dense + row * cols;
    for (std::int64_t col = 0; col < cols; ++col) {
      if (line[col] != 0.0F) {
        matrix.col_idxs.push_back(static_cast<std::int32_t>(col));
        matrix.values.push_back(line[col]);
      }
    }
    matrix.row_ptrs.push_back(matrix.nnz());
  }
  return matrix;
}

}  // namespace spjit

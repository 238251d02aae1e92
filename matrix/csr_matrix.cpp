#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <span>

#include "base/arithmetic.hpp"
#include "matrix/cancellable.hpp"
#include "matrix/column_numbers.hpp"
#include "matrix/limits.hpp"
#include "spjit/error.hpp"
#include "spjit/matrix.hpp"

namespace spjit {
namespace {

void validate_dimension(const char* what, std::int64_t size) {
  if (size < 0 || size > k_max_dimension) {
    throw InvalidMatrix(
        fmt::format("matrix has {} {}: expected 0 to {}", size, what, k_max_dimension));
  }
}

void validate_row_ptrs(const CsrMatrix& matrix, const Cancellation& cancel) {
  const std::vector<std::int64_t>& offsets = matrix.row_ptrs;
  if (offsets.size() != to_size(matrix.rows) + 1) {
    throw InvalidMatrix(fmt::format("row_ptrs has {} entries: expected rows + 1 = {}",
                                    offsets.size(), matrix.rows + 1));
  }
  if (offsets.front() != 0) {
    throw InvalidMatrix(fmt::format("row_ptrs[0] is {}: expected 0", offsets.front()));
  }
  for_each_piece(matrix.rows, cancel, [&](std::int64_t begin, std::int64_t end) {
    const auto last = offsets.begin() + end + 1;
    const auto drop = std::adjacent_find(offsets.begin() + begin, last, std::greater<>());
    if (drop != last) {
      throw InvalidMatrix(fmt::format("row_ptrs falls from {} to {} at row {}: expected ascending",
                                      drop[0], drop[1], drop - offsets.begin()));
    }
  });
  if (offsets.back() != matrix.nnz()) {
    throw InvalidMatrix(fmt::format("row_ptrs ends at {}: expected the {} entries of col_idxs",
                                    offsets.back(), matrix.nnz()));
  }
}

[[noreturn]] void fail_twice(std::int64_t row, std::int32_t column) {
  throw InvalidMatrix(
      fmt::format("row {} has column {} twice: expected each column once", row, column));
}

/// Rows that are longer are sorted in a way that can be given up.
constexpr std::int64_t k_long_row = k_cancel_pace;

std::span<const std::int32_t> columns_of(const CsrMatrix& matrix, std::int64_t row) {
  const std::int64_t begin = matrix.row_ptrs[to_size(row)];
  return {matrix.col_idxs.data() + begin, to_size(matrix.row_ptrs[to_size(row) + 1] - begin)};
}

void validate_unsorted_row(const CsrMatrix& matrix, std::int64_t row, const Cancellation& cancel) {
  const std::span<const std::int32_t> columns = columns_of(matrix, row);
  if (std::ssize(columns) <= k_long_row) {
    std::vector<std::int32_t> sorted(columns.begin(), columns.end());
    std::sort(sorted.begin(), sorted.end());
    const auto twin = std::adjacent_find(sorted.begin(), sorted.end());
    if (twin != sorted.end()) fail_twice(row, *twin);
    return;
  }
  std::int32_t last = -1;
  CancelPace pace(cancel);
  for (const std::int64_t entry : order_by_column(columns, cancel)) {
    pace.spend(1);
    const std::int32_t column = columns[to_size(entry)];
    if (column == last) fail_twice(row, column);
    last = column;
  }
}

/// Whether `falls(before, column)` holds for none of columns [begin, end) and the one before it.
template <class Falls>
bool are_ascending(const std::int32_t* columns, std::int64_t begin, std::int64_t end,
                   const Falls& falls) {
  std::uint32_t any = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    any |= static_cast<std::uint32_t>(falls(columns[i - 1], columns[i]));
  }
  return any == 0;
}

[[noreturn]] void fail_outside(const CsrMatrix& matrix, std::int64_t row, std::int64_t entry) {
  const std::int32_t* const columns = matrix.col_idxs.data();
  while (columns[entry] >= 0 && columns[entry] < matrix.cols) ++entry;
  throw InvalidMatrix(fmt::format("row {} has column {}: expected 0 <= column < {}", row,
                                  columns[entry], matrix.cols));
}

// Rows in ascending order need no memory; only the others are copied and sorted.
void validate_row(const CsrMatrix& matrix, std::int64_t row, const Cancellation& cancel,
                  CancelPace& pace) {
  const std::int64_t first = matrix.row_ptrs[to_size(row)];
  bool ascending = true;
  pace.pieces(first, matrix.row_ptrs[to_size(row) + 1], [&](std::int64_t begin, std::int64_t end) {
    const std::int32_t* const columns = matrix.col_idxs.data();
    const std::span<const std::int32_t> piece(columns + begin, columns + end);
    if (!columns_are_within(piece, matrix.cols)) fail_outside(matrix, row, begin);
    ascending =
        ascending && are_ascending(columns, std::max(begin, first + 1), end, std::greater_equal());
  });
  if (!ascending) validate_unsorted_row(matrix, row, cancel);
}

struct Entry {
  std::int32_t col;
  float value;
};

bool is_sorted(const CsrMatrix& matrix, std::int64_t row, CancelPace& pace) {
  const std::int64_t first = matrix.row_ptrs[to_size(row)];
  bool sorted = true;
  pace.pieces(
      first + 1, matrix.row_ptrs[to_size(row) + 1], [&](std::int64_t begin, std::int64_t end) {
        sorted = sorted && are_ascending(matrix.col_idxs.data(), begin, end, std::greater());
      });
  return sorted;
}

/// The entries of a row in the order they shall have.
std::vector<Entry> sorted_entries(const CsrMatrix& matrix, std::int64_t row,
                                  const Cancellation& cancel) {
  const std::span<const std::int32_t> columns = columns_of(matrix, row);
  const float* const values = matrix.values.data() + matrix.row_ptrs[to_size(row)];
  std::vector<Entry> entries;
  if (std::ssize(columns) > k_long_row) {
    CancelPace pace(cancel);
    for (const std::int64_t entry : order_by_column(columns, cancel)) {
      pace.spend(1);
      entries.push_back({columns[to_size(entry)], values[entry]});
    }
    return entries;
  }
  for (std::size_t i = 0; i < columns.size(); ++i) entries.push_back({columns[i], values[i]});
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.col < b.col; });
  return entries;
}

void sort_row(CsrMatrix& matrix, std::int64_t row, const Cancellation& cancel, CancelPace& pace) {
  if (is_sorted(matrix, row, pace)) return;
  const std::vector<Entry> entries = sorted_entries(matrix, row, cancel);
  const std::int64_t first = matrix.row_ptrs[to_size(row)];
  pace.pieces(0, std::ssize(entries), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      matrix.col_idxs[to_size(first + i)] = entries[to_size(i)].col;
      matrix.values[to_size(first + i)] = entries[to_size(i)].value;
    }
  });
}

void sort_rows(CsrMatrix& matrix, const Cancellation& cancel) {
  CancelPace pace(cancel);
  for (std::size_t row = 0; row + 1 < matrix.row_ptrs.size(); ++row) {
    pace.spend(1);
    sort_row(matrix, static_cast<std::int64_t>(row), cancel, pace);
  }
}

}  // namespace

void validate(const CsrMatrix& matrix, const Cancellation& cancel) {
  validate_dimension("rows", matrix.rows);
  validate_dimension("cols", matrix.cols);
  validate_row_ptrs(matrix, cancel);
  if (matrix.values.size() != matrix.col_idxs.size()) {
    throw InvalidMatrix(fmt::format("values has {} entries: expected as many as col_idxs, {}",
                                    matrix.values.size(), matrix.col_idxs.size()));
  }
  CancelPace pace(cancel);
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    pace.spend(1);
    validate_row(matrix, row, cancel, pace);
  }
}

bool has_sorted_rows(const CsrMatrix& matrix, const Cancellation& cancel) {
  CancelPace pace(cancel);
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    pace.spend(1);
    if (!is_sorted(matrix, row, pace)) return false;
  }
  return true;
}

CsrMatrix with_sorted_rows(const CsrMatrix& matrix, const Cancellation& cancel) {
  CsrMatrix copy;
  copy.rows = matrix.rows;
  copy.cols = matrix.cols;
  copy.row_ptrs.clear();
  append_in_pieces(copy.row_ptrs, std::span(matrix.row_ptrs), cancel);
  append_in_pieces(copy.col_idxs, std::span(matrix.col_idxs), cancel);
  append_in_pieces(copy.values, std::span(matrix.values), cancel);
  sort_rows(copy, cancel);
  return copy;
}

void CsrMatrix::validate() const { spjit::validate(*this, {}); }

void CsrMatrix::sort_columns() { sort_rows(*this, {}); }

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

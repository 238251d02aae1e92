#include "reorder/row_subset.hpp"

#include <algorithm>
#include <numeric>

#include "matrix/column_numbers.hpp"

namespace spjit::reorder {

RowSubset take_rows(const CsrMatrix& matrix, std::span<const std::int32_t> rows,
                    const Cancellation& cancel) {
  RowSubset subset;
  CancelPace pace(cancel);
  subset.matrix_rows.assign(rows.begin(), rows.end());
  subset.row_ptrs.reserve(rows.size() + 1);
  for (const std::int32_t row : rows) {
    pace.spend(1);
    const std::int64_t nnz = matrix.row_ptrs[at(row) + 1] - matrix.row_ptrs[at(row)];
    subset.row_ptrs.push_back(subset.row_ptrs.back() + nnz);
  }
  subset.col_idxs.reserve(at(subset.row_ptrs.back()));
  for (const std::int32_t row : rows) {
    pace.pieces(matrix.row_ptrs[at(row)], matrix.row_ptrs[at(row) + 1],
                [&](std::int64_t begin, std::int64_t end) {
                  subset.col_idxs.insert(subset.col_idxs.end(), matrix.col_idxs.begin() + begin,
                                         matrix.col_idxs.begin() + end);
                });
  }

  subset.cols = number_used_columns(subset.col_idxs, matrix.cols, cancel);
  subset.col_counts = filled(subset.cols, std::int64_t{0}, cancel);
  pace.pieces(0, subset.nnz(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) ++subset.col_counts[at(subset.col_idxs[at(i)])];
  });
  return subset;
}

ColumnLists::ColumnLists(const RowSubset& rows, const Cancellation& cancel)
    : starts_(filled(rows.cols, std::int64_t{0}, cancel)),
      sizes_(filled(rows.cols, std::int64_t{0}, cancel)),
      entries_(filled(rows.nnz(), std::int32_t{0}, cancel)) {
  std::exclusive_scan(rows.col_counts.begin(), rows.col_counts.end(), starts_.begin(),
                      std::int64_t{0});
}

void ColumnLists::clear() { std::fill(sizes_.begin(), sizes_.end(), 0); }

ColumnLists list_rows_by_column(const RowSubset& rows, const Cancellation& cancel) {
  ColumnLists lists(rows, cancel);
  CancelPace pace(cancel);
  for (std::int32_t row = 0; row < rows.rows(); ++row) {
    pace.pieces(rows.row_ptrs[at(row)], rows.row_ptrs[at(row) + 1],
                [&](std::int64_t begin, std::int64_t end) {
                  for (std::int64_t i = begin; i < end; ++i) lists.push(rows.col_idxs[at(i)], row);
                });
  }
  return lists;
}

}  // namespace spjit::reorder

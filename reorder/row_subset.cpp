#include "reorder/row_subset.hpp"

#include <algorithm>
#include <numeric>

namespace spjit::reorder {
namespace {

/// A table over all k columns is the fastest renumbering, and is used while it is at most this many
/// times the nonzeros; past that the columns are sorted instead.
constexpr std::int64_t k_table_per_nonzero = 8;

void renumber_by_table(RowSubset& subset, std::int64_t matrix_cols) {
  std::vector<std::int32_t> number(at(matrix_cols), 0);
  for (const std::int32_t column : subset.col_idxs) number[at(column)] = 1;
  std::int32_t next = 0;
  for (std::int32_t& entry : number) {
    if (entry != 0) entry = next++;
  }
  for (std::int32_t& column : subset.col_idxs) column = number[at(column)];
  subset.cols = next;
}

void renumber_by_sorting(RowSubset& subset) {
  std::vector<std::int32_t> used = subset.col_idxs;
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  for (std::int32_t& column : subset.col_idxs) {
    const auto found = std::lower_bound(used.begin(), used.end(), column);
    column = static_cast<std::int32_t>(found - used.begin());
  }
  subset.cols = static_cast<std::int64_t>(used.size());
}

}  // namespace

RowSubset take_rows(const CsrMatrix& matrix, std::span<const std::int32_t> rows) {
  RowSubset subset;
  subset.matrix_rows.assign(rows.begin(), rows.end());
  subset.row_ptrs.reserve(rows.size() + 1);
  for (const std::int32_t row : rows) {
    const std::int64_t nnz = matrix.row_ptrs[at(row) + 1] - matrix.row_ptrs[at(row)];
    subset.row_ptrs.push_back(subset.row_ptrs.back() + nnz);
  }
  subset.col_idxs.reserve(at(subset.row_ptrs.back()));
  for (const std::int32_t row : rows) {
    const auto first = matrix.col_idxs.begin() + matrix.row_ptrs[at(row)];
    const auto last = matrix.col_idxs.begin() + matrix.row_ptrs[at(row) + 1];
    subset.col_idxs.insert(subset.col_idxs.end(), first, last);
  }

  if (matrix.cols <= k_table_per_nonzero * subset.nnz()) {
    renumber_by_table(subset, matrix.cols);
  } else {
    renumber_by_sorting(subset);
  }
  subset.col_counts.assign(at(subset.cols), 0);
  for (const std::int32_t column : subset.col_idxs) ++subset.col_counts[at(column)];
  return subset;
}

ColumnLists::ColumnLists(const RowSubset& rows)
    : starts_(at(rows.cols)), sizes_(at(rows.cols)), entries_(at(rows.nnz())) {
  std::exclusive_scan(rows.col_counts.begin(), rows.col_counts.end(), starts_.begin(),
                      std::int64_t{0});
}

void ColumnLists::clear() { std::fill(sizes_.begin(), sizes_.end(), 0); }

ColumnLists list_rows_by_column(const RowSubset& rows) {
  ColumnLists lists(rows);
  for (std::int32_t row = 0; row < rows.rows(); ++row) {
    for (const std::int32_t column : rows.columns(row)) lists.push(column, row);
  }
  return lists;
}

}  // namespace spjit::reorder

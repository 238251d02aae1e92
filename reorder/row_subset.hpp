#pragma once

/// @file
/// Some rows of a matrix with their columns renumbered, so that nothing depends on k.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/cancel.hpp"
#include "spjit/matrix.hpp"

namespace spjit::reorder {

/// Row tiles as lists of rows; which numbering the rows are in is said where it is used.
using RowTiles = std::vector<std::vector<std::int32_t>>;

/// A subscript out of a signed count or number, which must not be negative.
[[nodiscard]] constexpr std::size_t at(std::integral auto number) noexcept {
  return static_cast<std::size_t>(number);
}

/// Chosen rows of a matrix, numbered 0, 1, ... in the order they were chosen; their non-empty
/// columns numbered 0 .. cols - 1 in ascending order. Holds at most 12 bytes a nonzero and 12 a
/// row.
struct RowSubset {
  std::int64_t cols = 0;                     ///< non-empty columns, at most nnz
  std::vector<std::int32_t> matrix_rows;     ///< the matrix row behind each row
  std::vector<std::int64_t> row_ptrs = {0};  ///< rows + 1 offsets into col_idxs
  std::vector<std::int32_t> col_idxs;        ///< renumbered columns
  std::vector<std::int64_t> col_counts;      ///< nnz of each renumbered column

  [[nodiscard]] std::int64_t rows() const noexcept {
    return static_cast<std::int64_t>(matrix_rows.size());
  }
  [[nodiscard]] std::int64_t nnz() const noexcept {
    return static_cast<std::int64_t>(col_idxs.size());
  }
  [[nodiscard]] std::int64_t row_nnz(std::int64_t row) const noexcept {
    return row_ptrs[at(row) + 1] - row_ptrs[at(row)];
  }
  [[nodiscard]] std::span<const std::int32_t> columns(std::int64_t row) const noexcept {
    return {col_idxs.data() + row_ptrs[at(row)], at(row_nnz(row))};
  }
};

/// Copies `rows` of a valid matrix. Memory and time follow the nonzeros chosen, not the matrix.
/// Throws what `cancel` throws soon after it is reached; so do the functions below.
[[nodiscard]] RowSubset take_rows(const CsrMatrix& matrix, std::span<const std::int32_t> rows,
                                  const Cancellation& cancel = {});

/// For each column a list of numbers that only shrinks and grows within room for the column's nnz:
/// the inverted index, in one array of nnz entries.
class ColumnLists {
 public:
  /// Room for every nonzero of `rows`; the lists start empty.
  explicit ColumnLists(const RowSubset& rows, const Cancellation& cancel = {});

  void push(std::int32_t column, std::int32_t number) {
    entries_[at(starts_[at(column)] + sizes_[at(column)]++)] = number;
  }
  [[nodiscard]] std::span<const std::int32_t> list(std::int32_t column) const noexcept {
    return {entries_.data() + starts_[at(column)], at(sizes_[at(column)])};
  }
  void clear();

  /// Calls `visit(number)` for the list's numbers that `keep(number)` holds for, and forgets the
  /// others, so a number that is of no more use is met once.
  template <typename Keep, typename Visit>
  void visit_kept(std::int32_t column, Keep keep, Visit visit) {
    std::int32_t* const list = entries_.data() + starts_[at(column)];
    std::int64_t& size = sizes_[at(column)];
    for (std::int64_t i = 0; i < size;) {
      const std::int32_t number = list[i];
      if (keep(number)) {
        visit(number);
        ++i;
      } else {
        list[i] = list[--size];
      }
    }
  }

 private:
  std::vector<std::int64_t> starts_;
  std::vector<std::int64_t> sizes_;
  std::vector<std::int32_t> entries_;
};

/// The rows of each column.
[[nodiscard]] ColumnLists list_rows_by_column(const RowSubset& rows,
                                              const Cancellation& cancel = {});

}  // namespace spjit::reorder

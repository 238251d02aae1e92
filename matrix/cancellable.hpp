#pragma once

/// @file
/// The public functions on matrices for callers who may give up on the way. Each throws what
/// `cancel` throws soon after it is reached.

#include <cstdint>

#include "base/cancel.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// CsrMatrix::validate().
void validate(const CsrMatrix& matrix, const Cancellation& cancel);

/// Whether the columns of each row of a valid matrix ascend.
[[nodiscard]] bool has_sorted_rows(const CsrMatrix& matrix, const Cancellation& cancel);

/// A copy with sorted rows.
[[nodiscard]] CsrMatrix with_sorted_rows(const CsrMatrix& matrix, const Cancellation& cancel);

/// compute_statistics().
[[nodiscard]] MatrixStatistics compute_statistics(const CsrMatrix& matrix,
                                                  const Cancellation& cancel);
/// Only what the lengths of the rows tell: no columns and no values are read. The other fields are
/// 0.
[[nodiscard]] MatrixStatistics row_statistics(const CsrMatrix& matrix, const Cancellation& cancel);

/// Rows that store an entry, be its value zero. Throws what `cancel` throws soon after it is
/// reached.
[[nodiscard]] inline std::int64_t non_empty_rows(const CsrMatrix& matrix,
                                                 const Cancellation& cancel = {}) {
  std::int64_t count = 0;
  for_each_piece(matrix.rows, cancel, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t* const row_ptrs = matrix.row_ptrs.data();
    for (std::int64_t row = begin; row < end; ++row) {
      count += row_ptrs[row] != row_ptrs[row + 1] ? 1 : 0;
    }
  });
  return count;
}

}  // namespace spjit

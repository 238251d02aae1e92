#pragma once

/// @file
/// The sparse matrix A `[m x k]` in compressed sparse row form, and what can be said about it.

#include <cstdint>
#include <vector>

#include "spjit/export.hpp"

namespace spjit {

/// A `[rows x cols]` fp32 matrix in compressed sparse row (CSR) form. A plain value: fill it, then
/// `validate()`. Explicit zeros are legal entries. Columns of a row may come in any order as long
/// as none repeats; `sort_columns()` brings them in ascending order, which every reader does.
struct SPJIT_EXPORT CsrMatrix {
  std::int64_t rows = 0;                     ///< m, 0 .. 2^31 - 1
  std::int64_t cols = 0;                     ///< k, 0 .. 2^31 - 1
  std::vector<std::int64_t> row_ptrs = {0};  ///< rows + 1 offsets into col_idxs, ascending from 0
  std::vector<std::int32_t> col_idxs;        ///< nnz columns, each in [0, cols)
  std::vector<float> values;                 ///< nnz values

  /// Stored entries, explicit zeros included.
  [[nodiscard]] std::int64_t nnz() const noexcept {
    return static_cast<std::int64_t>(col_idxs.size());
  }

  /// Throws InvalidMatrix that names the first row or entry that breaks a rule above.
  void validate() const;

  /// Sorts each row by column; rows already in order cost one look. Precondition: the offsets are
  /// valid. Entries that repeat a column keep their order.
  void sort_columns();

  /// Removes entries whose value is +0 or -0; returns how many. Precondition: the offsets are
  /// valid.
  std::int64_t drop_explicit_zeros();

  friend bool operator==(const CsrMatrix&, const CsrMatrix&) = default;
};

/// The row-major dense `[rows x cols]` array as CSR; zeros (+0 and -0) are left out.
/// Throws InvalidArgument if `dense` is null while the matrix is not empty, or a size is negative
/// or over 2^31 - 1.
[[nodiscard]] SPJIT_EXPORT CsrMatrix csr_from_dense(const float* dense, std::int64_t rows,
                                                    std::int64_t cols);

/// Statistics that `spjit explain` and the tile rules look at.
struct MatrixStatistics {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t nnz = 0;
  double sparsity = 0;  ///< 1 - nnz / (rows * cols); 0 for a matrix with a zero dimension
  std::int64_t empty_rows = 0;
  std::int64_t empty_cols = 0;
  std::int64_t explicit_zeros = 0;
  std::int64_t row_nnz_min = 0;
  std::int64_t row_nnz_max = 0;
  double row_nnz_mean = 0;
  double row_nnz_cv = 0;  ///< coefficient of variation of nnz over rows (population deviation /
                          ///< mean); 0 where the mean is 0
};

/// One pass over a valid matrix. Memory: a byte a column, or 20 bytes an entry where those are
/// fewer.
[[nodiscard]] SPJIT_EXPORT MatrixStatistics compute_statistics(const CsrMatrix& matrix);

}  // namespace spjit

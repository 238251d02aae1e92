#include "kernels/host/object/csr_view.hpp"

namespace spjit {

CsrView view_of(const CsrMatrix& matrix) noexcept {
  return {matrix.rows, matrix.cols, matrix.row_ptrs, matrix.col_idxs, matrix.values};
}

std::vector<RowRange> split_rows(const CsrView& matrix, std::int64_t parts) {
  return split_evenly(matrix.rows, parts, [&](std::int64_t row) {
    return matrix.row_ptrs[static_cast<std::size_t>(row)] + row;
  });
}

}  // namespace spjit

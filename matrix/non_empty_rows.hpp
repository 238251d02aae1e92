#pragma once

#include <cstddef>
#include <cstdint>

#include "spjit/matrix.hpp"

namespace spjit {

/// Rows that store an entry, be its value zero.
[[nodiscard]] inline std::int64_t non_empty_rows(const CsrMatrix& matrix) {
  std::int64_t count = 0;
  for (std::size_t row = 0; row + 1 < matrix.row_ptrs.size(); ++row) {
    count += matrix.row_ptrs[row] != matrix.row_ptrs[row + 1] ? 1 : 0;
  }
  return count;
}

}  // namespace spjit

#pragma once

/// @file
/// Measures that more than one CUDA family chooses by.

#include <cstdint>

#include "base/arithmetic.hpp"
#include "kernels/kernel_family.hpp"

namespace spjit {

/// Bytes of each instruction of machine code, from sm_70 on.
inline constexpr std::int64_t k_cuda_instruction_bytes = 16;

/// Unrolled code of A has more: an instruction a product. [bytes]
[[nodiscard]] inline std::int64_t least_unrolled_bytes(const CsrMatrix& a) noexcept {
  return a.nnz() * k_cuda_instruction_bytes;
}

/// Entries over all places of A.
[[nodiscard]] inline double entry_share_of(const CsrMatrix& a) noexcept {
  const double all = as_double(a.rows) * as_double(a.cols);
  return all > 0 ? as_double(a.nnz()) / all : 0;
}

/// Columns of B and C up to which `packed` and `narrow` are: with fewer than half a warp's, lanes
/// for columns would have nothing to do.
inline constexpr std::int64_t k_few_cuda_columns = 16;

/// Columns of C that a block of theirs has: the least power of two that is no less than n, or 16.
[[nodiscard]] constexpr std::int64_t few_columns_for(std::int64_t n) noexcept {
  std::int64_t columns = 1;
  while (columns < n && columns < k_few_cuda_columns) columns *= 2;
  return columns;
}

/// An entry of A as CSR, of which a kernel moves the column and the value. [bytes]
inline constexpr std::int64_t k_csr_entry_bytes = 8;

}  // namespace spjit

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

/// Columns of B and C up to which `narrow` is: with fewer than half a warp's, lanes for columns
/// would have nothing to do.
inline constexpr std::int64_t k_few_cuda_columns = 16;

}  // namespace spjit

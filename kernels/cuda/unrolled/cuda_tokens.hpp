#pragma once

/// @file
/// Tokens of B and C in CUDA C++, as PtxTokens has them in PTX.

#include <cstdint>
#include <span>

#include "kernels/cuda/code/source_text.hpp"
#include "kernels/cuda/unrolled/cuda_tile.hpp"

namespace spjit {

/// Rows of C that a function writes.
struct RowsOfFunction {
  std::int64_t function = 0;
  std::span<const std::int32_t> rows;
};

/// The functions of a unit that pass tokens through shared memory; nothing where there are none.
void emit_cuda_tokens(SourceText& text, const CudaKernelSpec& spec);

/// The table of rows that are not neighbours, in front of their function.
void emit_cuda_rows(SourceText& text, const RowsOfFunction& rows);

/// A column whose element of B is loaded, and what shared memory holds.
struct ColumnOfTokens {
  std::int64_t column = 0;
  std::int64_t base = -1;  ///< first feature in shared memory; -1: none
  std::int64_t cols = 0;   ///< of A
};

/// Declares b`column`, the element of this thread's token; returns the first feature in shared
/// memory from there on.
[[nodiscard]] std::int64_t emit_cuda_load(SourceText& text, const CudaKernelSpec& spec,
                                          const ColumnOfTokens& column);

/// Stores the epilogues of c0, c1, ..., or of zeros.
void emit_cuda_stores(SourceText& text, const CudaKernelSpec& spec, const RowsOfFunction& rows,
                      bool are_zeros);

}  // namespace spjit

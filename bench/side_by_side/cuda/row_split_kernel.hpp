#pragma once

/// @file
/// The sparse peer on a GPU: C = A * B from A as CSR.

#include <string>

namespace spjit::side_by_side {

inline constexpr const char* k_row_split_name = "row_split";
inline constexpr int k_row_split_rows = 4;  ///< rows of A a block: one a warp

/// CUDA C++ of `row_split(m, n, row_order, row_ptrs, col_idxs, values, b, c)`, with
/// k_row_split_name unmangled. `vector` floats (1, 2 or 4; n must be a multiple) are a thread's
/// part of a row of C. Blocks: {ceil(m / k_row_split_rows), ceil(n / (32 vector))}; threads: {32,
/// k_row_split_rows}.
///
/// Written for this repository, after the design that Gale, Zaharia, Young and Elsen describe in
/// "Sparse GPU Kernels for Deep Learning" (SC 2020): a row of A and some columns of C for each
/// warp, A's entries staged in shared memory, vector loads of B, rows in the order of their lengths
/// (row swizzle). It is not their code, Sputnik, and lacks its reversed offsets and its tuning of
/// the tile for each shape.
[[nodiscard]] std::string row_split_source(int vector);

}  // namespace spjit::side_by_side

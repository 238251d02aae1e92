#pragma once

/// @file
/// Positions that magnitude pruning would keep.

#include <cstdint>

#include "matrix/random.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// The positions of the `nnz` largest of rows x cols made-up weights, each row factor x column
/// factor x |z|: factors are exp(z / 8), z normal with deviation 1 (sums of uniform numbers). The
/// rows and columns of a trained layer differ in scale, and one threshold for all of it leaves some
/// fuller than others: at 90 % sparsity nonzeros a row vary by about 0.4, as in layers of DLMC.
/// Without values. 16 bytes of memory a cell while it is made. Precondition: 1 <= nnz <= rows x
/// cols.
[[nodiscard]] CsrMatrix magnitude_positions(std::int64_t rows, std::int64_t cols, std::int64_t nnz,
                                            RandomStream random);

}  // namespace spjit

#pragma once

/// @file
/// Seeded synthetic matrices: `spjit gen` and tests. The same options give the same bits on every
/// machine and standard library.

#include <cstdint>
#include <string_view>

#include "spjit/export.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// How the nonzeros lie; docs/matrices.md defines each.
enum class MatrixPattern {
  uniform,      ///< nnz positions drawn uniformly without replacement
  uneven_rows,  ///< row nnz drawn from a wide (log-normal) distribution, columns uniform
  blocks,       ///< dense block_rows x block_cols blocks at uniform block positions
  power_law,    ///< row and column weights fall as a power law (few heavy, many light)
  banded,       ///< entries near the (rescaled) diagonal
  magnitude,    ///< the largest of random weights whose rows and columns differ in scale: as pruned
};

struct GenerateOptions {
  std::int64_t rows = 512;
  std::int64_t cols = 512;
  double sparsity = 0.9;  ///< in [0, 1]; nnz = round((1 - sparsity) * rows * cols), met exactly
                          ///< except for `blocks`, where it is met to within one block
  MatrixPattern pattern = MatrixPattern::uniform;
  std::uint64_t seed = 1;       ///< of the positions and, by pattern_value(), of the values
  std::int64_t block_rows = 4;  ///< `blocks` only
  std::int64_t block_cols = 4;  ///< `blocks` only
};

/// A valid matrix with sorted rows and no explicit zeros; its values are pattern_value()'s.
/// Throws InvalidArgument for a pattern that there is not, a sparsity outside [0, 1], sizes outside
/// [0, 2^31), blocks below 1 x 1, 2^31 and more nonzeros, or more than 2^28 cells for `magnitude`.
[[nodiscard]] SPJIT_EXPORT CsrMatrix generate_matrix(const GenerateOptions& options);

/// "uniform", "uneven_rows", "blocks", "power_law", "banded", "magnitude"; throws
/// InvalidArgument otherwise.
[[nodiscard]] SPJIT_EXPORT MatrixPattern parse_pattern(std::string_view name);
[[nodiscard]] SPJIT_EXPORT std::string_view to_string(MatrixPattern pattern);

}  // namespace spjit

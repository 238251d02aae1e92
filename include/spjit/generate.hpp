#pragma once

/// @file
/// Seeded synthetic matrices: `spjit gen` and tests. The same options give the same bits on every
/// machine and standard library.

#include <cstdint>
#include <string_view>

#include "spjit/export.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// How the nonzeros lie. Draws come from SplitMix64 started at the seed and use integers only. In
/// what follows z is about normal with deviation 1: a sum of 12 uniform numbers. exp(z) takes 2^x
/// as linear between whole powers. Rows that share nnz have at most `cols` each.
enum class MatrixPattern {
  /// Every set of nnz positions is equally likely.
  uniform,
  /// Rows share nnz by weights exp(z), a wide distribution; columns are uniform.
  uneven_rows,
  /// block_rows x block_cols blocks, smaller at the right and lower edge. Whole blocks are taken at
  /// random while at least half a block is missing.
  blocks,
  /// Rows and columns get ranks r = 0, 1, ... at random. Rows share nnz by weights 1 / (r + 1);
  /// columns are drawn without replacement with the same weights.
  power_law,
  /// Rows share nnz evenly. Row i draws from a window of twice a row's nnz around column
  /// i * cols / rows, moved inside at the edges.
  banded,
  /// The nnz largest of r_i c_j abs(z) over all cells; r and c are exp(z / 8). It is what one
  /// threshold leaves of a layer whose rows and columns differ in scale.
  magnitude,
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
/// Throws InvalidArgument for
/// - an unknown pattern, or a sparsity outside [0, 1]
/// - sizes outside [0, 2^31), or blocks below 1 x 1
/// - 2^31 and more nonzeros, or more than 2^28 cells for `magnitude`
[[nodiscard]] SPJIT_EXPORT CsrMatrix generate_matrix(const GenerateOptions& options);

/// "uniform", "uneven_rows", "blocks", "power_law", "banded", "magnitude"; throws
/// InvalidArgument otherwise.
[[nodiscard]] SPJIT_EXPORT MatrixPattern parse_pattern(std::string_view name);
[[nodiscard]] SPJIT_EXPORT std::string_view to_string(MatrixPattern pattern);

}  // namespace spjit

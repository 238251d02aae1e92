#pragma once

/// @file
/// The ways rows can be regrouped into row tiles.

#include <string_view>

#include "spjit/export.hpp"

namespace spjit {

enum class ReorderAlgorithm {
  none,        ///< non-empty rows in their own order, M1 at a time
  balanced,    ///< Algorithm 1 of LO-SpMM: least maximum nnc, balanced nnz
  similarity,  ///< most FMAs per loaded B row. Greedy: a tile grows by the row with the smallest
               ///< share of new columns. Then rows change places while that saves columns
  automatic,   ///< GPU: `similarity` or `balanced`, chosen for each tile; else `similarity`
};

/// "none", "balanced", "similarity", "auto"; throws InvalidArgument otherwise.
[[nodiscard]] SPJIT_EXPORT ReorderAlgorithm parse_reorder(std::string_view name);
[[nodiscard]] SPJIT_EXPORT std::string_view to_string(ReorderAlgorithm algorithm);

}  // namespace spjit

#pragma once

/// @file
/// Rows of B on their way to where the loop of the family `compact` reads them.

#include <cstdint>

#include "kernels/host/loops/compact_kernel.hpp"
#include "kernels/host/operands/product.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// Floats of a row of packed B in a plane: a cache line, of which a narrow panel fills half.
inline constexpr std::int64_t k_plane_row = 16;
/// Floats from one plane of sixteen columns to the next.
inline constexpr std::int64_t k_plane = CompactMatrix::k_most_packed_columns * k_plane_row;

/// Where packed B is.
struct PackedLayout {
  std::int64_t row;    ///< floats from a row to the next
  std::int64_t plane;  ///< floats from sixteen columns of a row to the next
};

/// In planes: a column number is the address for panels of any width.
[[nodiscard]] inline PackedLayout in_planes(std::int64_t /*columns*/) {
  return {k_plane_row, k_plane};
}
/// In rows: as B is itself where it has no more columns than a panel.
[[nodiscard]] inline PackedLayout in_rows(std::int64_t columns) {
  return {compact_row_floats(columns), k_plane_row};
}

/// The part of B to pack: rows of a block, a panel's columns.
struct PackedPart {
  const Product& product;
  DenseSource b;              ///< from the first row on and, but of runs, from the first column on
  std::int64_t first_column;  ///< of the panel
  std::int64_t columns;
  std::int64_t rows;
};

/// Copies rows of B, with zeros past the panel's columns in the last vector. Past the last row of
/// `to` there is room for a vector. Precondition: this CPU has `isa`, which is avx512 or avx2.
void pack_panel(const PackedPart& part, const PackedLayout& layout, HostIsa isa, float* to);

/// Whether rows of B are already where they would be packed.
[[nodiscard]] bool is_as_packed(const DenseSource& b, std::int64_t columns,
                                const PackedLayout& layout);

}  // namespace spjit

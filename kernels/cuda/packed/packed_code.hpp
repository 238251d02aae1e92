#pragma once

/// @file
/// The code of the family `packed`, for one to sixteen columns: A as bitmaps and packed values
/// (packed_rows.hpp).
///
/// A block has a group of rows, and goes through A's columns in chunks. All its threads bring a
/// chunk of values, bitmaps and B into registers while the chunk before is multiplied. Then they
/// put it into shared memory, and make the places of entries of the bitmaps. A lane for a row and
/// up to four of its columns adds up the products in their order.
///
/// It depends on the architecture, the layer, the columns and the type of values, not on A.

#include <cstdint>
#include <span>
#include <string>

#include "kernels/cuda/code/cuda_code.hpp"
#include "kernels/cuda/launch/cuda_program.hpp"
#include "kernels/cuda/packed/packed_rows.hpp"

namespace spjit {

/// Rises whenever the emitted text or the arrangement of A changes; part of what a compilation is
/// cached by.
inline constexpr int k_packed_cuda_version = 1;

/// Threads of a block.
inline constexpr std::int64_t k_packed_threads = 128;

/// A compiled kernel of the family.
struct PackedProgram : CudaProgram {
  std::int64_t columns = 1;  ///< that a block has of C: 1, 2, 4, 8, 16
  bool is_far = false;       ///< rows or tokens of B or C are 2^30 floats apart or more
  PackedForm form = {};

  friend bool operator==(const PackedProgram&, const PackedProgram&) = default;
};

/// Columns side by side that loads of B and stores of C may have, widest first; of each there is a
/// kernel.
[[nodiscard]] std::span<const std::int64_t> packed_widths(const PackedProgram& program);

/// "spjit_packed_4" of four columns side by side.
[[nodiscard]] std::string packed_kernel_name(std::int64_t width);

/// Parameters of all kernels, in this order. Those of CudaParameters, then
///   bitmaps, starts   of PackedRows
///   rows, cols        of A
///   group_rows        of a block: PackedForm::group_rows
///   chunks            of A's columns
///   first_tile        column tile of the blocks with y = 0
/// A's values are `values`, units as PackedRows has them. Launch: groups x column tiles x products
/// blocks of k_packed_threads.
[[nodiscard]] std::span<const CudaCode::Parameter> packed_parameters();

/// The kernels of all widths: C[i][j] is the sum over the entries of row i in ascending column,
/// from +0, each product fused, of values that are widened exactly.
[[nodiscard]] CudaCode::Texts emit_packed(const PackedProgram& program);

}  // namespace spjit

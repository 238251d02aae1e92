#pragma once

/// @file
/// The code of the family `narrow`, for one to sixteen columns. All threads of a block bring what
/// the block's entries multiply into shared memory, whichever rows they are of. Then a few lanes a
/// row add up its products in their order.
///
/// It depends on the architecture, the layer and the columns, not on A.

#include <cstdint>
#include <span>
#include <string>

#include "kernels/cuda/code/cuda_code.hpp"
#include "kernels/cuda/cuda_rules.hpp"
#include "kernels/cuda/launch/cuda_program.hpp"

namespace spjit {

/// Rises whenever the emitted text changes; part of what a compilation is cached by.
inline constexpr int k_narrow_cuda_version = 1;

/// Threads of a block.
inline constexpr std::int64_t k_narrow_threads = 128;

/// A compiled kernel of the family.
struct NarrowProgram : CudaProgram {
  std::int64_t columns = 1;  ///< that a block has of C: 1, 2, 4, 8, 16
  bool is_far = false;       ///< rows or tokens of B or C are 2^30 floats apart or more

  /// Rows of C that a block has at most: a thread each column, where vectors cannot be.
  [[nodiscard]] std::int64_t rows_a_block() const noexcept { return k_narrow_threads / columns; }
  /// Entries of A that are in shared memory at once. A block of several rows has no more.
  [[nodiscard]] std::int64_t stage_entries() const noexcept;

  friend bool operator==(const NarrowProgram&, const NarrowProgram&) = default;
};

/// Columns side by side that loads of B and stores of C may have, widest first; of each there is a
/// kernel.
[[nodiscard]] std::span<const std::int64_t> narrow_widths(const NarrowProgram& program);

/// "spjit_narrow_4" of four columns side by side.
[[nodiscard]] std::string narrow_kernel_name(std::int64_t width);

/// Parameters of all kernels, in this order. Those of CudaParameters, then
///   block_rows  [blocks + 1] first row of each block
///   row_ptrs    [rows + 1] as CSR has them
///   columns     [entries] as CSR has them
///   first_tile  column tile of the blocks with y = 0
/// A's values are `values`, as CSR has them. Launch: blocks x column tiles x products blocks of
/// k_narrow_threads.
[[nodiscard]] std::span<const CudaCode::Parameter> narrow_parameters();

/// The kernels of all widths: C[i][j] is the sum over the entries of row i in ascending column,
/// from +0, each product fused.
[[nodiscard]] CudaCode::Texts emit_narrow(const NarrowProgram& program);

}  // namespace spjit

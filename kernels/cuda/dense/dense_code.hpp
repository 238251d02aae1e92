#pragma once

/// @file
/// The code of the family `dense` for GPUs: A with its zeros times B, tile by tile through shared
/// memory, with sums in registers.
///
/// It depends on the architecture, the layer and the tile, not on A, its shape or n.

#include <cstdint>
#include <span>
#include <string>

#include "kernels/cuda/code/cuda_code.hpp"
#include "kernels/cuda/launch/cuda_program.hpp"
#include "runtime/cuda/cuda_device_info.hpp"

namespace spjit {

/// Rises whenever the emitted text changes; part of what a compilation is cached by.
inline constexpr int k_dense_cuda_version = 1;

/// A block's and a thread's part of C, and the columns of A that one of two stages has in shared
/// memory.
struct DenseTile {
  std::int64_t rows = 128;
  std::int64_t columns = 128;
  std::int64_t thread_rows = 8;     ///< 4 or 8, four side by side
  std::int64_t thread_columns = 8;  ///< 4 or 8, four side by side
  std::int64_t depth = 8;

  [[nodiscard]] std::int64_t threads() const noexcept {
    return rows / thread_rows * (columns / thread_columns);
  }
  friend bool operator==(const DenseTile&, const DenseTile&) = default;
};

/// "rows=128 columns=64"
[[nodiscard]] std::string to_string(const DenseTile& tile);

/// All tiles, by size.
[[nodiscard]] std::span<const DenseTile> dense_tiles() noexcept;
/// The tile of so many rows and columns. Throws Error if there is none.
[[nodiscard]] DenseTile dense_tile_of(std::int64_t rows, std::int64_t columns);

/// The tile of which a product takes the least time on a device, by a formula. The SM with the most
/// blocks decides. The larger a tile is, the more of a block's time it multiplies.
[[nodiscard]] DenseTile dense_tile_for(std::int64_t m, std::int64_t n,
                                       const CudaDeviceInfo& limits) noexcept;

/// A compiled kernel of the family.
struct DenseCudaProgram : CudaProgram {
  DenseTile tile = {};
  bool is_far = false;  ///< rows or tokens of B or C are 2^30 floats apart or more

  friend bool operator==(const DenseCudaProgram&, const DenseCudaProgram&) = default;
};

/// Floats side by side that accesses to B and C may have, widest first; of each there is a kernel.
[[nodiscard]] std::span<const std::int64_t> dense_widths() noexcept;

/// "spjit_dense_4" of four floats side by side.
[[nodiscard]] std::string dense_kernel_name(std::int64_t width);

/// Parameters of all kernels, in this order. Those of CudaParameters, then
///   row_ptrs, columns, entries  A as CSR has it
///   rows, depth_tiles           of A: rows, and columns in stages of the tile's depth
///   cols                        of A
///   first_tile                  column tile of the blocks with y = 0
///   least                       the bits of least_b_for(), 1 at least
/// `values` are A with its zeros: a block of the tile's rows after the other, of each a stage after
/// the other, in that column by column; one stage may be read behind the last. Launch: blocks of
/// rows x column tiles x products blocks of the tile's threads.
[[nodiscard]] std::span<const CudaCode::Parameter> dense_parameters();

/// The kernels of all widths: C[i][j] is the sum over the entries of row i in ascending column,
/// from +0, each product fused. Products with zeros are added too where B is as dense_bits.hpp says
/// in all that a block reads; else the block adds up those of the entries.
[[nodiscard]] CudaCode::Texts emit_dense(const DenseCudaProgram& program);

}  // namespace spjit

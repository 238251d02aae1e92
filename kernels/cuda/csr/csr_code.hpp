#pragma once

/// @file
/// The code of the family `csr` for GPUs: a loop over the entries of a row, of which each column of
/// C is a lane's.
///
/// It depends on the architecture, the layer and CsrTile, and not on A, its shape or n: those are
/// parameters. So one compilation serves all matrices of a network.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kernels/cuda/code/cuda_code.hpp"
#include "kernels/cuda/launch/cuda_program.hpp"

namespace spjit {

/// Rises whenever the emitted text changes; part of what a compilation is cached by.
inline constexpr int k_csr_cuda_version = 1;

/// Threads of a block.
inline constexpr std::int64_t k_csr_cuda_threads = 128;
/// Entries that are read at once. Rows of the arrays that the kernel reads begin at multiples, and
/// so many may be read behind the last.
inline constexpr std::int64_t k_csr_cuda_group = 4;

/// Most pixels of an image: their numbers are of 32 bits.
inline constexpr std::int64_t k_most_csr_pixels = 0xFFFF'FFFF;

/// Which threads compute what: `lanes` neighbours of a warp have a row of C, each so many columns
/// of it, `lanes` apart or, where B and C are aligned to vectors, side by side.
struct CsrTile {
  std::int64_t lanes = 32;   ///< 8, 16, 32
  std::int64_t columns = 4;  ///< a lane: 1, 2, 4

  /// Columns of a row that its lanes have at once.
  [[nodiscard]] std::int64_t width() const noexcept { return lanes * columns; }
  [[nodiscard]] std::int64_t rows_a_block() const noexcept { return k_csr_cuda_threads / lanes; }

  friend bool operator==(const CsrTile&, const CsrTile&) = default;
};

/// "lanes=32 columns=4"
[[nodiscard]] std::string to_string(const CsrTile& tile);

/// The tile that leaves the fewest lanes without a column for so many. Tokens of B and pixels of an
/// image are a column a lane: side by side they are far apart in memory.
[[nodiscard]] CsrTile csr_tile_for(const CudaLayer& layer, std::int64_t n) noexcept;

/// A compiled kernel of the family.
struct CsrCudaProgram : CudaProgram {
  CsrTile tile = {};
  /// Rows or tokens of B or C are 2^30 floats apart or more.
  bool is_far = false;

  friend bool operator==(const CsrCudaProgram&, const CsrCudaProgram&) = default;
};

/// Columns side by side that loads of B and stores of C may have, widest first: as many as the tile
/// has a lane, at most. Of each there is a kernel.
[[nodiscard]] std::span<const std::int64_t> csr_widths(const CudaLayer& layer, const CsrTile& tile);

/// "spjit_csr_4" of four columns side by side.
[[nodiscard]] std::string csr_kernel_name(std::int64_t width);

/// Parameters of all kernels, in this order. Those of CudaParameters, then
///   order    [rows] row of C, longest first
///   begins   [rows] where its entries begin, multiples of 4
///   lengths  [rows] how many it has
///   columns  [entries] rows of B; of a convolution channels, and
///   down, right  [entries] how far the tap is from the first, in pixels
///   first_tile  column tile of the blocks with y = 0
///   height, width  of an image
///   out_width, stride_height, stride_width, pad_top, pad_left  of a convolution
/// A's values are `values`, as columns. Launch: ceil(rows / rows_a_block) x column tiles x products
/// blocks of k_csr_cuda_threads.
[[nodiscard]] std::span<const CudaCode::Parameter> csr_parameters();

/// The kernels of all widths, for the arch, layer, tile and distances of a program: C[i][j] is the
/// sum over the entries of row i in ascending column, from +0, each product fused.
[[nodiscard]] CudaCode::Texts emit_csr(const CsrCudaProgram& program);

}  // namespace spjit

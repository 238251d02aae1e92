#pragma once

/// @file
/// The CUDA tile: everything about a CUDA kernel that can be chosen, and what else its text depends
/// on.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/code/cuda_layer.hpp"
#include "kernels/cuda/cuda_options.hpp"
#include "plan/kernel_plan.hpp"
#include "spjit/reorder.hpp"

namespace spjit {

/// Row tiles a block, at most: each has a barrier of its own, of 16.
inline constexpr std::int64_t k_cuda_max_tiles_a_block = 4;
/// Nonzeros of code that is compiled at once, and the text of the proxies that a search times.
inline constexpr NamedOption k_unit_option = {
    .name = "unit_nonzeros", .fallback = "2048", .least = 1, .most = std::int64_t{1} << 40};
inline constexpr NamedOption k_proxy_source_option = {
    .name = "proxy_source", .fallback = "ptx", .texts = k_cuda_sources, .is_of_search = true};
/// How many blocks of a kernel an SM is to hold at once. That caps a thread's registers, and the
/// more there are, the earlier ptxas issues loads of B.
enum class CudaCap : std::uint8_t {
  device,  ///< as many as it can hold at the predicted registers
  grid,    ///< of these no more than a launch has for it: ceil(blocks / SMs)
};

/// "device", "grid"
[[nodiscard]] std::string_view to_string(CudaCap cap);

/// One choice for the CUDA kernel (LO-SpMM): N1 threads compute a tile of M1 rows x N1 columns of
/// C, each M1 x 1 in M1 accumulators. A block has one row tile, or several that are neighbours in
/// the plan, of the same columns: what they read of B is in L1 then.
struct CudaTile {
  std::int64_t m1 = 32;               ///< rows a tile
  std::int64_t n1 = 128;              ///< columns a tile = threads of a tile
  std::int64_t tiles_a_block = 1;     ///< row tiles a block; more than one have whole warps each
  std::int64_t unit_nonzeros = 2048;  ///< where code is cut into units; a tile stays whole
  bool runtime_sizes = false;         ///< n, ldb and ldc are kernel parameters, not constants
  /// How rows are grouped into tiles; not `automatic`.
  ReorderAlgorithm reorder = ReorderAlgorithm::similarity;
  CudaCap cap = CudaCap::device;

  [[nodiscard]] std::int64_t threads() const noexcept { return n1 * tiles_a_block; }  ///< a block

  friend bool operator==(const CudaTile&, const CudaTile&) = default;
};

/// "rows=32 columns=128", for tables and records; "tiles=" (a block), "reorder=", "cap=", "unit="
/// (nonzeros of a unit) and "run-time n" where they are not the default. Different tiles have
/// different texts.
[[nodiscard]] std::string to_string(const CudaTile& tile);

/// The part of tokens that the threads of a tile have in shared memory at once, feature after
/// feature: some features of its n1 tokens. Threads read and write features of one token side by
/// side.
struct CudaStage {
  std::int64_t features = 0;  ///< a power of two
  std::int64_t pitch = 0;     ///< floats between features, so that no two threads share a bank
  std::int64_t step = 0;      ///< tokens that all threads pass at once: n1 / features
  std::int64_t bytes = 0;     ///< of shared memory; 0: there are no tokens
};

/// Stage of a tile of n1 threads, whole warps: up to 17 KB, from n1 = 768 on 25 to 33 KB.
[[nodiscard]] CudaStage stage_of(const CudaLayer& layer, std::int64_t n1);

/// Dynamic shared memory of a block: one stage after another, in the order of its tiles.
[[nodiscard]] std::int64_t shared_bytes_of(const CudaLayer& layer, const CudaTile& tile);

/// Options of the emitters besides the plan.
struct CudaKernelSpec {
  CudaTile tile;
  std::int64_t n = 0;  ///< columns of B and C; with runtime sizes only the usual one
  /// Floats between rows of B, >= n; between tokens, >= 1; likewise between channels or pixels of
  /// an image.
  std::int64_t ldb = 0;
  std::int64_t ldc = 0;  ///< floats between rows of C, >= n; between tokens, >= its rows
  CudaLayer layer = {};
  std::int64_t min_blocks = 1;  ///< blocks an SM shall hold at once; this caps the registers
  /// A launch may have blocks of any number of threads a tile and of tiles, up to tile.threads()
  /// together, which launch bounds (with min_blocks) still name; off: exactly those of the tile.
  /// Not for tokens.
  bool runtime_threads = false;
  /// [row tiles of a launch] Function that each of them runs: several may share one, and there may
  /// be functions that none runs. Empty: row tile x runs function x.
  std::vector<std::int32_t> function_of_tile = {};
};

/// Name of the kernel in every emitted program.
///
/// Parameters of every kernel: those of CudaParameters (cuda_parameters.hpp). Launch: `cuda_grid()`
/// blocks of `(n1, tiles_a_block, 1)` threads, with runtime threads of `(t, g, 1)` for any t * g <=
/// threads() and the grid of such tiles; the grid's z are the products of a batch. Thread (i, g) of
/// block (x, y) computes column y * n1 + i of row tile x * tiles_a_block + g, if there are such.
/// Dynamic shared memory: shared_bytes_of().
inline constexpr const char* k_cuda_kernel_name = "spjit_spmm";

/// Blocks of a launch.
struct CudaGrid {
  std::int64_t x = 0;  ///< ceil(row tiles of the launch / tiles_a_block)
  std::int64_t y = 0;  ///< column tiles, ceil(n / n1)
};

/// Grid of a launch with so many row tiles (functions) and n columns.
[[nodiscard]] CudaGrid cuda_grid(std::int64_t row_tiles, const CudaTile& tile, std::int64_t n);

/// Grid of a program without function_of_tile: its functions are row tiles, then parts of the empty
/// rows.
[[nodiscard]] CudaGrid cuda_grid(const KernelPlan& plan, const CudaTile& tile, std::int64_t n);
[[nodiscard]] CudaGrid cuda_grid(const KernelPlan& plan, const CudaKernelSpec& spec);

/// Row tiles of a launch: functions of the program, or the entries of function_of_tile.
[[nodiscard]] std::int64_t launched_tiles(const KernelPlan& plan, const CudaKernelSpec& spec);

/// The function that a row tile runs, tile < launched_tiles().
[[nodiscard]] std::int64_t function_of(const CudaKernelSpec& spec, std::int64_t tile);

/// Throws InvalidArgument unless a kernel can be emitted for the tile and n columns:
/// - m1 and n1 are 1 to 1024, and there are at most 65535 column tiles
/// - a block has 1 to 4 tiles and at most 1024 threads; of several, each has whole warps
/// - units have at least 1 nonzero
void check_cuda_tile(const CudaTile& tile, std::int64_t n);

/// Throws InvalidArgument unless the emitters take plan and spec:
/// - the plan has k in one block, at least one row, less than 2^31 rows and columns, and no tile of
///   more than m1 rows
/// - 1 <= n1 <= 1024, 1 <= n <= ldb, ldc < 2^30 (of tokens as CudaKernelSpec says), and sizes
///   are at least 1
/// - the grid has at most 65535 column tiles, and tiles run functions that the program has
/// - tokens have whole warps and at most 48 KB of shared memory
/// - there are no panels, and wrong_patches() takes the convolution
void check_cuda_spec(const KernelPlan& plan, const CudaKernelSpec& spec);

}  // namespace spjit

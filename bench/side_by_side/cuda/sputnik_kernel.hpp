#pragma once

/// @file
/// The sparse peer on a GPU: C = A * B from A as CSR.

#include <cstdint>
#include <string>

namespace spjit::side_by_side {

inline constexpr const char* k_sputnik_kernel_name = "sputnik_style";
inline constexpr int k_sputnik_threads = 128;  ///< of a block
/// Entries of A that a thread loads at once. Arrays of entries have a multiple of it.
inline constexpr int k_sputnik_group = 4;

/// Threads of a row and columns of a thread: a row and threads * vector columns of C are a tile.
struct SputnikTile {
  int threads = 32;  ///< 8, 16 or 32
  int vector = 4;    ///< 1, 2 or 4 neighbouring columns; n is a multiple

  [[nodiscard]] int columns() const noexcept { return threads * vector; }
  [[nodiscard]] int rows_a_block() const noexcept { return k_sputnik_threads / threads; }

  friend auto operator<=>(const SputnikTile&, const SputnikTile&) = default;
};

/// The widest vector that n is a multiple of, and the threads that leave the fewest idle; of equal
/// ones the most.
[[nodiscard]] SputnikTile sputnik_tile_for(std::int64_t n);

/// CUDA C++ of `sputnik_style(m, n, row_order, row_ptrs, col_idxs, values, b, c)`, with
/// k_sputnik_kernel_name unmangled. Blocks: {ceil(m / rows_a_block()), ceil(n / columns())};
/// threads: k_sputnik_threads.
///
/// Sputnik-style, not Sputnik: written for this repository after the design that Gale, Zaharia,
/// Young and Elsen describe in "Sparse GPU Kernels for Deep Learning" (SC 2020): one-dimensional
/// tiles, a row of A and some columns of C for part of a warp; rows in the order of their lengths
/// (row swizzle); entries of A in shared memory and rows of B, both by vector loads, those of A
/// from the multiple of four before a row's first entry (reverse offset memory alignment); the
/// tile's width after n. None of it is their code, and their tuning of the tile is not in it.
[[nodiscard]] std::string sputnik_source(const SputnikTile& tile);

}  // namespace spjit::side_by_side

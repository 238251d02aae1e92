#pragma once

/// @file
/// The CPU's sizes that the loop of the family `compact` is made for, and blocks of A that suit it.

#include <cstdint>
#include <limits>

#include "base/host_cpu.hpp"
#include "kernels/host/object/csr_view.hpp"
#include "kernels/host/operands/held_values.hpp"
#include "spjit/problem.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// Columns of B and C that are computed at once, at most.
inline constexpr std::int64_t k_compact_panel_columns = 64;

/// How the entries of a block of A follow one another.
enum class CompactOrder {
  slices,  ///< eight rows at a time: a row of C is few vectors
  rows     ///< row by row: one row of C fills the registers
};

/// The blocks of columns that A is divided into.
struct CompactBlocks {
  std::int64_t columns;
  CompactOrder order = CompactOrder::slices;
  /// Rows of a block, the longest first: the end of a row comes where the CPU expects it. In the
  /// order `rows` alone they may be as they are in A, which the CPU fetches rows of C ahead for.
  bool sorted = true;
  /// The type of values in memory, which has them; f32 where B is read in place. Values of tails,
  /// which are few, are floats.
  HeldType held = HeldType::f32;
};

/// From so many columns of B on AVX2 takes rows one by one: panels of up to 64 columns read a
/// weight for eight vectors, where eight rows of a vector load or shuffle one for each.
inline constexpr std::int64_t k_wide_columns = 17;
/// With AVX-512, on a CPU that starts one FMA of 512 bits a cycle (Zen 4): MiniLM at 80 and 90 %, n
/// = 64 to 512, in 0.83 to 0.88 of the time of four rows at once.
inline constexpr std::int64_t k_wide_columns_avx512 = 64;

/// A CPU as far as the loop differs. The bits it computes do not.
struct CompactCpu {
  HostIsa isa = HostIsa::avx512;  ///< avx512 or avx2
  /// Weights are loaded one by one: a shuffle starts where half of the FMAs do, so eight of them
  /// from a vector take longer. False: they are shuffled, since loads are what limits the loop.
  /// With AVX-512 alone.
  bool loads_weights = false;
  std::int64_t l1d_bytes = std::int64_t{48} << 10;
  /// Columns of B from which on rows are taken one by one.
  std::int64_t wide_columns = std::numeric_limits<std::int64_t>::max();
};

/// Intel's shuffles of 512 bits start on port 5 alone, its FMAs there and on port 0; Zen 5 has more
/// ports for shuffles than for loads (docs/results/host.md).
[[nodiscard]] CompactCpu compact_cpu_of(HostIsa isa, const HostCpu& cpu);

/// Floats that a row of packed B has where rows follow one another, for a panel of so many columns.
/// A power of two, so that a column number is an address.
[[nodiscard]] constexpr std::int64_t compact_row_floats(std::int64_t columns) noexcept {
  return columns <= 8 ? 8 : columns <= 16 ? 16 : columns <= 32 ? 32 : k_compact_panel_columns;
}

/// The blocks of A, and their order, for n columns of B, rows of it `ldb` floats apart. So many
/// rows of B fit the L1 cache. Where few entries of a row are in a block, going from row to row
/// takes longer than B from L2: then it is wider. Where few entries read a row of B, packing that
/// takes longest: then it is read in place. Measured on networks of 50 to 98 %, in sequence
/// (docs/results/host.md). For a run-time n, of which n is a typical value, blocks between those of
/// few and of many columns.
///
/// Rows follow one another from `wide_columns` on. With AVX2 three vectors of C are too few sums to
/// add to without waiting, so up to 24 columns of an A with few zeros are slices, for panels of 16
/// and 8 columns.
[[nodiscard]] CompactBlocks compact_blocks(const CsrView& matrix, const CompactCpu& cpu,
                                           const Extent& n, std::int64_t ldb) noexcept;

}  // namespace spjit

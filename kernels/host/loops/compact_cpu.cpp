#include "kernels/host/loops/compact_cpu.hpp"

#include <algorithm>

#include "base/arithmetic.hpp"
#include "kernels/host/loops/compact_kernel.hpp"

namespace spjit {
namespace {

// From n of the first on rows of B are wider than a cache line; from the second on, further apart,
// they share too few sets of the caches.
constexpr std::int64_t k_in_place_columns = 17;

/// Of a CPU that loads weights: what of B is packed takes two thirds of L1, where A and C pass by.
/// Where B's rows already follow one another as a panel's do, nothing is packed, however few
/// entries read them.
std::int64_t columns_in_l1(const CompactCpu& cpu, double entries, double density, const Extent& n,
                           std::int64_t ldb) {
  constexpr std::int64_t k_any = 256;  // of a run-time n
  constexpr double k_few_of_a_panel = 10;
  const std::int64_t panel = std::min(n.value, k_compact_panel_columns);
  const std::int64_t row_floats = compact_row_floats(panel);
  const bool is_packed = !n.runtime && n.value == row_floats && ldb == row_floats;
  const double few = n.value <= panel ? k_few_of_a_panel : k_few_entries_a_column;
  if (!is_packed && n.value >= k_in_place_columns && n.value < k_far_columns && entries < few) {
    return CompactMatrix::k_most_block_columns;
  }
  const std::int64_t of_l1 = cpu.l1d_bytes * 2 / 3 / (row_floats * 4) / 16 * 16;
  const std::int64_t wider = density < 0.03 ? 4 : density < 0.07 ? 2 : 1;
  const std::int64_t most = n.runtime && wider == 1 ? k_any : CompactMatrix::k_most_packed_columns;
  return std::clamp<std::int64_t>(of_l1 * wider, 16, most);
}

/// Of eight rows at a time.
std::int64_t columns_of_slices(const CompactCpu& cpu, double entries, double density,
                               const Extent& n, std::int64_t ldb) {
  const bool is_avx512 = cpu.isa == HostIsa::avx512;
  if (cpu.loads_weights) return columns_in_l1(cpu, entries, density, n, ldb);
  constexpr std::int64_t k_any = 256;
  if (n.value >= k_in_place_columns && n.value < k_far_columns &&
      entries < k_few_entries_a_column) {
    return CompactMatrix::k_most_block_columns;
  }
  const bool wide = is_avx512 && n.value >= k_compact_panel_columns;
  if (n.runtime && is_avx512 && density >= 0.07 && density < 0.15) return k_any;
  if (density < (wide ? 0.07 : 0.15)) return CompactMatrix::k_most_packed_columns;
  return wide ? 128 : 256;
}

/// Of rows one by one: of panels of 64 columns as many rows of B as L1 has, of narrower
/// ones up to as many bytes, and more of them where few entries of a row are in a block (MiniLM at
/// 95 %, n = 32: 384 and 512 columns take 0.9 and 0.88 of the time of 256). B in place is for so
/// few entries that packing takes longest (256 x 1024 at 98 %, n = 64: 19 us, not 25; 64 x 576 at
/// 90 %, n = 128: 22, not 20).
std::int64_t columns_of_rows(double entries, double density, const Extent& n) {
  constexpr std::int64_t k_half_a_panel = 32;
  const double few = n.value <= k_compact_panel_columns ? 8 : 6;
  if (n.value < k_far_columns && entries < few) return CompactMatrix::k_most_block_columns;
  if (density < 0.03) return CompactMatrix::k_most_packed_columns;
  if (n.value <= k_half_a_panel && !n.runtime) return density < 0.07 ? 512 : 256;
  return density < 0.07 ? 384 : density < 0.15 ? 192 : 128;
}

/// MiniLM at 50, 70 and 80 %, n of 17 to 24, AVX2: slices take 0.82, 0.9 and 1.05 of the time of
/// rows. Those of 25 to 28 take 0.97, 1.05 and 1.18.
CompactOrder compact_order(const CompactCpu& cpu, double density, const Extent& n) {
  constexpr std::int64_t k_three_vectors = 24;
  constexpr double k_few_zeros = 0.27;
  if (n.value < cpu.wide_columns) return CompactOrder::slices;
  const bool waits = cpu.isa == HostIsa::avx2 && n.value <= k_three_vectors && !n.runtime;
  return waits && density >= k_few_zeros ? CompactOrder::slices : CompactOrder::rows;
}

}  // namespace

CompactCpu compact_cpu_of(HostIsa isa, const HostCpu& cpu) {
  constexpr int k_zen3_and_4 = 25;  // of which Zen 4 has AVX-512
  CompactCpu found{.isa = isa,
                   .loads_weights = isa == HostIsa::avx512 && cpu.vendor == "GenuineIntel",
                   .l1d_bytes = cpu.l1d_bytes};
  if (isa == HostIsa::avx2) found.wide_columns = k_wide_columns;
  const bool is_zen4 = cpu.vendor == "AuthenticAMD" && cpu.family == k_zen3_and_4;
  if (isa == HostIsa::avx512 && is_zen4) found.wide_columns = k_wide_columns_avx512;
  return found;
}

CompactBlocks compact_blocks(const CsrView& matrix, const CompactCpu& cpu, const Extent& n,
                             std::int64_t ldb) noexcept {
  const double entries = entries_a_column(matrix.nnz(), matrix.cols);
  const double density = entries / std::max(as_double(matrix.rows), 1.0);
  const CompactOrder order = compact_order(cpu, density, n);
  if (!matrix.groups.empty()) return {matrix.groups.columns, order};
  if (order == CompactOrder::slices) {
    return {columns_of_slices(cpu, entries, density, n, ldb)};
  }
  const std::int64_t most = columns_of_rows(entries, density, n);
  // Of one size: a narrow last block comes to all rows of C for a few entries each.
  const std::int64_t cols = std::max<std::int64_t>(matrix.cols, 1);
  const bool is_packed = most <= CompactMatrix::k_most_packed_columns;
  // MiniLM at 95 %, n = 256: 0.93 of the time in A's order; at 80 %, n = 64: 1.05, n = 32: 1.03.
  constexpr double k_few_entries = 0.12;
  const bool sorted = n.value <= k_compact_panel_columns || density >= k_few_entries;
  return {is_packed ? ceil_div(cols, ceil_div(cols, most)) : most, CompactOrder::rows, sorted};
}

}  // namespace spjit

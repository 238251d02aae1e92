#include "kernels/host/loops/csr_kernel.hpp"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "kernels/host/operands/simd.hpp"

namespace spjit {
namespace {

/// One block of columns of B and C: `vectors` vectors, the last of which has `tail` lanes.
struct ColumnBlock {
  const float* b = nullptr;
  std::int64_t ldb = 0;
  const std::int64_t* places = nullptr;  ///< of rows of B that have some
  float* c = nullptr;
  std::int64_t ldc = 0;
  std::int64_t tail = 0;
};

using BlockKernel = void (*)(const CsrView&, RowRange, const ColumnBlock&);

/// What a driver needs of an instruction set: the kernels for 1, 2, ... vectors and their lanes.
struct KernelTable {
  std::span<const BlockKernel> kernels;
  std::int64_t lanes = 0;
};

// Accumulators a row: enough to hide the latency of FMA (4 cycles, two a cycle), few enough to keep
// one row's sums in registers.
constexpr std::size_t k_vectors_avx512 = 16;
constexpr std::size_t k_vectors_avx2 = 12;
constexpr std::size_t k_vectors_generic = 8;

// The part of B that one block of columns reads is meant to stay in the L2 cache while the rows go
// by; below 8 vectors the work on each entry of A costs more than the misses. Measured on Zen 5
// with 1 MiB of L2: 512 KiB and 2 MiB are both slower.
constexpr std::int64_t k_cached_block_bytes = std::int64_t{1} << 20;
constexpr std::int64_t k_min_block_vectors = 8;

// The rows of B that the entry this far ahead needs are asked for early: it is worth 10-25 % where
// B does not fit into L1. Later entries may be another row's; past the last one nothing is fetched.
constexpr std::int64_t k_prefetch_entries = 4;

template <bool HasPlaces>
inline __attribute__((always_inline)) const float* row_of_b(const ColumnBlock& block,
                                                            std::int64_t row) {
  return block.b + (HasPlaces ? block.places[row] : row * block.ldb);
}

/// Asks for `bytes` of the row of B that an entry further on will read.
template <bool HasPlaces>
inline __attribute__((always_inline)) void prefetch_row(const CsrView& matrix, std::int64_t entry,
                                                        const ColumnBlock& block,
                                                        std::size_t bytes) {
  const std::int64_t ahead = std::min(entry + k_prefetch_entries, matrix.nnz() - 1);
  const float* b = row_of_b<HasPlaces>(block, matrix.col_idxs[static_cast<std::size_t>(ahead)]);
#pragma GCC unroll 16
  for (std::size_t line = 0; line < bytes; line += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(b) + line, _MM_HINT_T0);
  }
}

namespace in_avx512 {

#define SPJIT_CSR_TARGET SPJIT_AVX512_TARGET
using Isa = Avx512Zmm;
constexpr bool k_prefetches = true;

#include "kernels/host/loops/csr_rows.inc"

#undef SPJIT_CSR_TARGET

}  // namespace in_avx512

namespace in_avx2 {

#define SPJIT_CSR_TARGET SPJIT_AVX2_TARGET
using Isa = Avx2Ymm;
constexpr bool k_prefetches = true;

#include "kernels/host/loops/csr_rows.inc"

#undef SPJIT_CSR_TARGET

}  // namespace in_avx2

namespace in_generic {

#define SPJIT_CSR_TARGET

using Isa = GenericXmm;
constexpr bool k_prefetches = false;

#include "kernels/host/loops/csr_rows.inc"

#undef SPJIT_CSR_TARGET

}  // namespace in_generic

template <bool HasPlaces, bool HasGroups>
KernelTable table_of(HostIsa isa) {
  // A group's sums and those of all groups share the registers.
  constexpr std::size_t k_share = HasGroups ? 2 : 1;
  if (isa == HostIsa::avx512) {
    return in_avx512::table<HasPlaces, HasGroups>(
        std::make_index_sequence<k_vectors_avx512 / k_share>());
  }
  if (isa == HostIsa::avx2) {
    return in_avx2::table<HasPlaces, HasGroups>(
        std::make_index_sequence<k_vectors_avx2 / k_share>());
  }
  return in_generic::table<HasPlaces, HasGroups>(
      std::make_index_sequence<k_vectors_generic / k_share>());
}

/// Rows of B have places of their own in images alone, and those no groups.
KernelTable table_of(const CsrView& matrix, HostIsa isa, bool has_places) {
  if (!matrix.groups.empty()) return table_of<false, true>(isa);
  return has_places ? table_of<true, false>(isa) : table_of<false, false>(isa);
}

/// Vectors a block: as many as B's share of the cache allows, spread evenly over the blocks.
std::int64_t block_vectors(const CsrView& matrix, const KernelTable& table, std::int64_t n) {
  const std::int64_t vectors = (n + table.lanes - 1) / table.lanes;
  const std::int64_t column_bytes =
      std::max<std::int64_t>(1, matrix.cols) * table.lanes * std::int64_t{sizeof(float)};
  const std::int64_t cached = std::max(k_min_block_vectors, k_cached_block_bytes / column_bytes);
  const std::int64_t most = std::min(cached, static_cast<std::int64_t>(table.kernels.size()));
  const std::int64_t blocks = (vectors + most - 1) / most;
  return (vectors + blocks - 1) / blocks;
}

}  // namespace

void run_csr(const CsrView& matrix, HostIsa isa, RowRange rows, const Product& operands) {
  const KernelTable table = table_of(matrix, isa, operands.places != nullptr);
  if (operands.n <= 0) return;
  const std::int64_t step = block_vectors(matrix, table, operands.n) * table.lanes;
  for (std::int64_t first = 0; first < operands.n; first += step) {
    const std::int64_t columns = std::min(step, operands.n - first);
    const std::int64_t vectors = (columns + table.lanes - 1) / table.lanes;
    const std::int64_t tail = columns - (vectors - 1) * table.lanes;
    table.kernels[static_cast<std::size_t>(vectors - 1)](
        matrix, rows,
        {operands.b + first, operands.ldb, operands.places, operands.c + first, operands.ldc,
         tail});
  }
}

void run_csr(const CsrView& matrix, HostIsa isa, const Product& operands) {
  run_csr(matrix, isa, {0, matrix.rows}, operands);
}

}  // namespace spjit

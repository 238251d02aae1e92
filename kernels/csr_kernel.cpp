#include "kernels/csr_kernel.hpp"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace spjit {
namespace {

/// One block of columns of B and C: `vectors` vectors, the last of which has `tail` lanes.
struct ColumnBlock {
  const float* b = nullptr;
  std::int64_t ldb = 0;
  float* c = nullptr;
  std::int64_t ldc = 0;
  int tail = 0;
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
constexpr std::int64_t k_block_bytes = std::int64_t{1} << 20;
constexpr std::int64_t k_min_block_vectors = 8;

// The rows of B that the entry this far ahead needs are asked for early: it is worth 10-25 % where
// B does not fit into L1. Later entries may be another row's; past the last one nothing is fetched.
constexpr std::int64_t k_prefetch_entries = 4;

/// Asks for `bytes` of the row of B that an entry further on will read.
inline __attribute__((always_inline)) void prefetch_row(const CsrView& matrix, std::int64_t entry,
                                                        const ColumnBlock& block,
                                                        std::size_t bytes) {
  const std::int64_t ahead = std::min(entry + k_prefetch_entries, matrix.nnz() - 1);
  const float* b = block.b + matrix.col_idxs[static_cast<std::size_t>(ahead)] * block.ldb;
#pragma GCC unroll 16
  for (std::size_t line = 0; line < bytes; line += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(b) + line, _MM_HINT_T0);
  }
}

namespace in_avx512 {

#define SPJIT_CSR_TARGET __attribute__((target("avx512f")))
#define SPJIT_CSR_INLINE SPJIT_CSR_TARGET inline __attribute__((always_inline))

using Vector = __m512;
using Tail = __mmask16;
constexpr std::size_t k_lanes = 16;
constexpr bool k_prefetches = true;

SPJIT_CSR_INLINE Tail tail_of(const ColumnBlock& block) {
  return static_cast<__mmask16>((1U << static_cast<unsigned>(block.tail)) - 1U);
}
SPJIT_CSR_INLINE Vector zero() { return _mm512_setzero_ps(); }
SPJIT_CSR_INLINE Vector broadcast(float value) { return _mm512_set1_ps(value); }
SPJIT_CSR_INLINE Vector load(const float* from) { return _mm512_loadu_ps(from); }
SPJIT_CSR_INLINE Vector load_tail(const float* from, Tail tail) {
  return _mm512_maskz_loadu_ps(tail, from);
}
SPJIT_CSR_INLINE Vector multiply_add(Vector value, Vector b, Vector sum) {
  return _mm512_fmadd_ps(value, b, sum);
}
SPJIT_CSR_INLINE void store(float* to, Vector sum) { _mm512_storeu_ps(to, sum); }
SPJIT_CSR_INLINE void store_tail(float* to, Vector sum, Tail tail) {
  _mm512_mask_storeu_ps(to, tail, sum);
}

#include "kernels/csr_rows.inc"

#undef SPJIT_CSR_TARGET
#undef SPJIT_CSR_INLINE

}  // namespace in_avx512

namespace in_avx2 {

#define SPJIT_CSR_TARGET __attribute__((target("avx2,fma")))
#define SPJIT_CSR_INLINE SPJIT_CSR_TARGET inline __attribute__((always_inline))

using Vector = __m256;
using Tail = __m256i;
constexpr std::size_t k_lanes = 8;
constexpr bool k_prefetches = true;

SPJIT_CSR_INLINE Tail tail_of(const ColumnBlock& block) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(block.tail),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
SPJIT_CSR_INLINE Vector zero() { return _mm256_setzero_ps(); }
SPJIT_CSR_INLINE Vector broadcast(float value) { return _mm256_set1_ps(value); }
SPJIT_CSR_INLINE Vector load(const float* from) { return _mm256_loadu_ps(from); }
SPJIT_CSR_INLINE Vector load_tail(const float* from, Tail tail) {
  return _mm256_maskload_ps(from, tail);
}
SPJIT_CSR_INLINE Vector multiply_add(Vector value, Vector b, Vector sum) {
  return _mm256_fmadd_ps(value, b, sum);
}
SPJIT_CSR_INLINE void store(float* to, Vector sum) { _mm256_storeu_ps(to, sum); }
SPJIT_CSR_INLINE void store_tail(float* to, Vector sum, Tail tail) {
  _mm256_maskstore_ps(to, tail, sum);
}

#include "kernels/csr_rows.inc"

#undef SPJIT_CSR_TARGET
#undef SPJIT_CSR_INLINE

}  // namespace in_avx2

namespace in_generic {

#define SPJIT_CSR_TARGET

using Vector = __m128;
using Tail = std::int64_t;  // lanes
constexpr std::size_t k_lanes = 4;
constexpr bool k_prefetches = false;

inline Tail tail_of(const ColumnBlock& block) { return block.tail; }
inline Vector zero() { return _mm_setzero_ps(); }
inline Vector broadcast(float value) { return _mm_set1_ps(value); }
inline Vector load(const float* from) { return _mm_loadu_ps(from); }
__m128 load_lanes(const float* from, Tail lanes) {
  alignas(16) std::array<float, k_lanes> padded{};
  std::copy_n(from, lanes, padded.begin());
  return _mm_load_ps(padded.data());
}
inline Vector load_tail(const float* from, Tail tail) {
  return tail == k_lanes ? load(from) : load_lanes(from, tail);
}
/// Two roundings. The compiler must not see through the product: with -ffp-contract=fast and
/// -march=native it would make one FMA of it.
inline Vector multiply_add(Vector value, Vector b, Vector sum) {
  Vector product = value * b;
  asm("" : "+x"(product));
  return sum + product;
}
inline void store(float* to, Vector sum) { _mm_storeu_ps(to, sum); }
inline void store_tail(float* to, Vector sum, Tail tail) {
  alignas(16) std::array<float, k_lanes> last{};
  _mm_store_ps(last.data(), sum);
  std::copy_n(last.begin(), tail, to);
}

#include "kernels/csr_rows.inc"

#undef SPJIT_CSR_TARGET

}  // namespace in_generic

KernelTable table_of(HostIsa isa) {
  if (isa == HostIsa::avx512) return in_avx512::table(std::make_index_sequence<k_vectors_avx512>());
  if (isa == HostIsa::avx2) return in_avx2::table(std::make_index_sequence<k_vectors_avx2>());
  return in_generic::table(std::make_index_sequence<k_vectors_generic>());
}

/// Vectors a block: as many as B's share of the cache allows, spread evenly over the blocks.
std::int64_t block_vectors(const CsrView& matrix, const KernelTable& table, std::int64_t n) {
  const std::int64_t vectors = (n + table.lanes - 1) / table.lanes;
  const std::int64_t column_bytes =
      std::max<std::int64_t>(1, matrix.cols) * table.lanes * std::int64_t{sizeof(float)};
  const std::int64_t cached = std::max(k_min_block_vectors, k_block_bytes / column_bytes);
  const std::int64_t most = std::min(cached, static_cast<std::int64_t>(table.kernels.size()));
  const std::int64_t blocks = (vectors + most - 1) / most;
  return (vectors + blocks - 1) / blocks;
}

}  // namespace

void run_csr(const CsrView& matrix, HostIsa isa, RowRange rows, const Arguments& operands) {
  const KernelTable table = table_of(isa);
  if (operands.n <= 0) return;
  const std::int64_t step = block_vectors(matrix, table, operands.n) * table.lanes;
  for (std::int64_t first = 0; first < operands.n; first += step) {
    const std::int64_t columns = std::min(step, operands.n - first);
    const std::int64_t vectors = (columns + table.lanes - 1) / table.lanes;
    const auto tail = static_cast<int>(columns - (vectors - 1) * table.lanes);
    table.kernels[static_cast<std::size_t>(vectors - 1)](
        matrix, rows, {operands.b + first, operands.ldb, operands.c + first, operands.ldc, tail});
  }
}

void run_csr(const CsrView& matrix, HostIsa isa, const Arguments& operands) {
  run_csr(matrix, isa, {0, matrix.rows}, operands);
}

}  // namespace spjit

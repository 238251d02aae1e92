#include "kernels/csr/csr_kernel.hpp"

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

template <std::size_t Vectors>
__attribute__((target("avx512f"))) void run_block_avx512(const CsrView& matrix, RowRange rows,
                                                         const ColumnBlock& block) {
  const std::int64_t* row_ptrs = matrix.row_ptrs.data();
  const std::int32_t* col_idxs = matrix.col_idxs.data();
  const float* values = matrix.values.data();
  const auto mask = static_cast<__mmask16>((1U << static_cast<unsigned>(block.tail)) - 1U);
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    __m512 sums[Vectors];
#pragma GCC unroll 16
    for (std::size_t v = 0; v < Vectors; ++v) sums[v] = _mm512_setzero_ps();
    const std::int64_t end = row_ptrs[row + 1];
    for (std::int64_t i = row_ptrs[row]; i < end; ++i) {
      const float* b = block.b + col_idxs[i] * block.ldb;
      prefetch_row(matrix, i, block, Vectors * sizeof(__m512));
      const __m512 value = _mm512_set1_ps(values[i]);
#pragma GCC unroll 16
      for (std::size_t v = 0; v + 1 < Vectors; ++v) {
        sums[v] = _mm512_fmadd_ps(value, _mm512_loadu_ps(b + 16 * v), sums[v]);
      }
      constexpr std::size_t k_last = Vectors - 1;
      sums[k_last] =
          _mm512_fmadd_ps(value, _mm512_maskz_loadu_ps(mask, b + 16 * k_last), sums[k_last]);
    }
    float* c = block.c + row * block.ldc;
#pragma GCC unroll 16
    for (std::size_t v = 0; v + 1 < Vectors; ++v) _mm512_storeu_ps(c + 16 * v, sums[v]);
    _mm512_mask_storeu_ps(c + 16 * (Vectors - 1), mask, sums[Vectors - 1]);
  }
}

template <std::size_t Vectors>
__attribute__((target("avx2,fma"))) void run_block_avx2(const CsrView& matrix, RowRange rows,
                                                        const ColumnBlock& block) {
  const std::int64_t* row_ptrs = matrix.row_ptrs.data();
  const std::int32_t* col_idxs = matrix.col_idxs.data();
  const float* values = matrix.values.data();
  const __m256i mask =
      _mm256_cmpgt_epi32(_mm256_set1_epi32(block.tail), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    __m256 sums[Vectors];
#pragma GCC unroll 16
    for (std::size_t v = 0; v < Vectors; ++v) sums[v] = _mm256_setzero_ps();
    const std::int64_t end = row_ptrs[row + 1];
    for (std::int64_t i = row_ptrs[row]; i < end; ++i) {
      const float* b = block.b + col_idxs[i] * block.ldb;
      prefetch_row(matrix, i, block, Vectors * sizeof(__m256));
      const __m256 value = _mm256_set1_ps(values[i]);
#pragma GCC unroll 16
      for (std::size_t v = 0; v + 1 < Vectors; ++v) {
        sums[v] = _mm256_fmadd_ps(value, _mm256_loadu_ps(b + 8 * v), sums[v]);
      }
      constexpr std::size_t k_last = Vectors - 1;
      sums[k_last] = _mm256_fmadd_ps(value, _mm256_maskload_ps(b + 8 * k_last, mask), sums[k_last]);
    }
    float* c = block.c + row * block.ldc;
#pragma GCC unroll 16
    for (std::size_t v = 0; v + 1 < Vectors; ++v) _mm256_storeu_ps(c + 8 * v, sums[v]);
    _mm256_maskstore_ps(c + 8 * (Vectors - 1), mask, sums[Vectors - 1]);
  }
}

/// sum + value * b, two roundings. The compiler must not see through the product: with
/// -ffp-contract=fast and -march=native it would make one FMA of it.
template <class Float>
Float multiply_add(Float value, Float b, Float sum) {
  Float product = value * b;
  asm("" : "+x"(product));
  return sum + product;
}

__m128 load_lanes(const float* from, int lanes) {
  alignas(16) std::array<float, 4> padded{};
  std::copy_n(from, lanes, padded.begin());
  return _mm_load_ps(padded.data());
}

template <std::size_t Vectors>
void run_block_generic(const CsrView& matrix, RowRange rows, const ColumnBlock& block) {
  const std::int64_t* row_ptrs = matrix.row_ptrs.data();
  const std::int32_t* col_idxs = matrix.col_idxs.data();
  const float* values = matrix.values.data();
  constexpr std::size_t k_last = Vectors - 1;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    __m128 sums[Vectors];
#pragma GCC unroll 8
    for (std::size_t v = 0; v < Vectors; ++v) sums[v] = _mm_setzero_ps();
    const std::int64_t end = row_ptrs[row + 1];
    for (std::int64_t i = row_ptrs[row]; i < end; ++i) {
      const float* b = block.b + col_idxs[i] * block.ldb;
      const __m128 value = _mm_set1_ps(values[i]);
#pragma GCC unroll 8
      for (std::size_t v = 0; v < k_last; ++v) {
        sums[v] = multiply_add(value, _mm_loadu_ps(b + 4 * v), sums[v]);
      }
      const __m128 last =
          block.tail == 4 ? _mm_loadu_ps(b + 4 * k_last) : load_lanes(b + 4 * k_last, block.tail);
      sums[k_last] = multiply_add(value, last, sums[k_last]);
    }
    float* c = block.c + row * block.ldc;
#pragma GCC unroll 8
    for (std::size_t v = 0; v < k_last; ++v) _mm_storeu_ps(c + 4 * v, sums[v]);
    alignas(16) std::array<float, 4> last{};
    _mm_store_ps(last.data(), sums[k_last]);
    std::copy_n(last.begin(), block.tail, c + 4 * k_last);
  }
}

/// What a driver needs of an instruction set: the kernels for 1, 2, ... vectors and their lanes.
struct KernelTable {
  std::span<const BlockKernel> kernels;
  std::int64_t lanes = 0;
};

template <std::size_t... I>
KernelTable avx512_table(std::index_sequence<I...> /*vectors*/) {
  static constexpr std::array<BlockKernel, sizeof...(I)> k_kernels = {run_block_avx512<I + 1>...};
  return {k_kernels, 16};
}

template <std::size_t... I>
KernelTable avx2_table(std::index_sequence<I...> /*vectors*/) {
  static constexpr std::array<BlockKernel, sizeof...(I)> k_kernels = {run_block_avx2<I + 1>...};
  return {k_kernels, 8};
}

template <std::size_t... I>
KernelTable generic_table(std::index_sequence<I...> /*vectors*/) {
  static constexpr std::array<BlockKernel, sizeof...(I)> k_kernels = {run_block_generic<I + 1>...};
  return {k_kernels, 4};
}

KernelTable table_of(HostIsa isa) {
  if (isa == HostIsa::avx512) return avx512_table(std::make_index_sequence<k_vectors_avx512>());
  if (isa == HostIsa::avx2) return avx2_table(std::make_index_sequence<k_vectors_avx2>());
  return generic_table(std::make_index_sequence<k_vectors_generic>());
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

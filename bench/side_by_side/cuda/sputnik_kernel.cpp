#include "bench/side_by_side/cuda/sputnik_kernel.hpp"

#include <fmt/format.h>

namespace spjit::side_by_side {
namespace {

constexpr const char* k_body = R"cuda(
struct alignas(4 * VECTOR) Part { float at[VECTOR]; };

const int STAGE = 4 * THREADS;
const int ROWS = 128 / THREADS;

extern "C" __global__ void __launch_bounds__(128)
sputnik_style(int m, int n, const int* __restrict__ row_order, const int* __restrict__ row_ptrs,
              const int* __restrict__ col_idxs, const float* __restrict__ values,
              const float* __restrict__ b, float* __restrict__ c) {
  __shared__ float4 staged_values[ROWS][THREADS];
  __shared__ int4 staged_cols[ROWS][THREADS];
  const int lane = threadIdx.x % THREADS;
  const int slot = threadIdx.x / THREADS;
  const int place = blockIdx.x * ROWS + slot;
  const int col = (blockIdx.y * THREADS + lane) * VECTOR;
  const bool has_row = place < m;
  const bool inside = has_row && col < n;
  const int row = has_row ? row_order[place] : 0;
  const int begin = has_row ? row_ptrs[row] : 0;
  const int end = has_row ? row_ptrs[row + 1] : 0;
  int base = begin & ~3;
  // All rows of a warp take as many steps: it waits as one.
  int steps = (end - base + STAGE - 1) / STAGE;
#pragma unroll
  for (int other = THREADS; other < 32; other *= 2) {
    const int theirs = __shfl_xor_sync(0xffffffffu, steps, other);
    if (theirs > steps) steps = theirs;
  }
  Part sum = {};
  const float* my_values = (const float*)staged_values[slot];
  const int* my_cols = (const int*)staged_cols[slot];
  for (int step = 0; step < steps; ++step, base += STAGE) {
    const int mine = base + 4 * lane;
    if (mine < end) {
      staged_values[slot][lane] = *(const float4*)(values + mine);
      staged_cols[slot][lane] = *(const int4*)(col_idxs + mine);
    }
    __syncwarp();
    if (inside) {
      const int first = begin > base ? begin - base : 0;
      const int last = end - base < STAGE ? end - base : STAGE;
#pragma unroll 4
      for (int i = first; i < last; ++i) {
        const float value = my_values[i];
        const Part part = *(const Part*)(b + ((long long)my_cols[i] * n + col));
#pragma unroll
        for (int j = 0; j < VECTOR; ++j) sum.at[j] = __fmaf_rn(value, part.at[j], sum.at[j]);
      }
    }
    __syncwarp();
  }
  if (inside) *(Part*)(c + ((long long)row * n + col)) = sum;
}
)cuda";

std::int64_t padded_columns(const SputnikTile& tile, std::int64_t n) {
  return (n + tile.columns() - 1) / tile.columns() * tile.columns();
}

}  // namespace

SputnikTile sputnik_tile_for(std::int64_t n) {
  SputnikTile best;
  best.vector = n % 4 == 0 ? 4 : n % 2 == 0 ? 2 : 1;
  for (const int threads : {16, 8}) {
    const SputnikTile tile{threads, best.vector};
    if (padded_columns(tile, n) < padded_columns(best, n)) best = tile;
  }
  return best;
}

std::string sputnik_source(const SputnikTile& tile) {
  return fmt::format("#define VECTOR {}\n#define THREADS {}\n{}", tile.vector, tile.threads,
                     k_body);
}

}  // namespace spjit::side_by_side

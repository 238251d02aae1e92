#include "bench/side_by_side/cuda/row_split_kernel.hpp"

#include <fmt/format.h>

namespace spjit::side_by_side {
namespace {

constexpr const char* k_body = R"cuda(
struct alignas(4 * VECTOR) Part { float at[VECTOR]; };

extern "C" __global__ void __launch_bounds__(32 * ROWS)
row_split(int m, int n, const int* __restrict__ row_order, const int* __restrict__ row_ptrs,
          const int* __restrict__ col_idxs, const float* __restrict__ values,
          const float* __restrict__ b, float* __restrict__ c) {
  __shared__ float staged_values[ROWS][32];
  __shared__ int staged_cols[ROWS][32];
  const int lane = threadIdx.x;
  const int slot = threadIdx.y;
  const int place = blockIdx.x * ROWS + slot;
  if (place >= m) return;  // a whole warp
  const int row = row_order[place];
  const int col = (blockIdx.y * 32 + lane) * VECTOR;
  const bool inside = col < n;
  const int end = row_ptrs[row + 1];
  Part sum = {};
  for (int first = row_ptrs[row]; first < end; first += 32) {
    const int mine = first + lane;
    __syncwarp();
    if (mine < end) {
      staged_values[slot][lane] = values[mine];
      staged_cols[slot][lane] = col_idxs[mine];
    }
    __syncwarp();
    if (!inside) continue;
    const int count = end - first < 32 ? end - first : 32;
#pragma unroll 8
    for (int i = 0; i < count; ++i) {
      const float value = staged_values[slot][i];
      const long long offset = (long long)staged_cols[slot][i] * n + col;
      const Part part = *(const Part*)(b + offset);
      for (int j = 0; j < VECTOR; ++j) sum.at[j] = __fmaf_rn(value, part.at[j], sum.at[j]);
    }
  }
  if (inside) *(Part*)(c + (long long)row * n + col) = sum;
}
)cuda";

}  // namespace

std::string row_split_source(int vector) {
  return fmt::format("#define VECTOR {}\n#define ROWS {}\n{}", vector, k_row_split_rows, k_body);
}

}  // namespace spjit::side_by_side

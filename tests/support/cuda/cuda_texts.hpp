#pragma once

/// @file
/// CUDA C++ of kernels that spjit does not emit: loops over CSR, reductions with shuffles, products
/// through shared memory, generic addresses. What they compile to has what other families need.

namespace spjit::testing_support {

/// C `[m x n]` = A `[m x k]` in CSR times B `[k x n]`, sums in ascending order of a row's entries.
/// `csr_vectors`: a thread a row and four columns. `csr_pairs`: the same with four entries at once
/// and two columns. `csr_shared_rows`: a warp a row, whose lanes load entries and hand them round.
/// `csr_staged`: a block a row, entries through dynamic shared memory, columns of 16 bits.
inline constexpr const char* k_csr_text = R"(
extern "C" __global__ void csr_vectors(int m, int n, const int* __restrict__ row_ptrs,
    const int* __restrict__ col_idxs, const float* __restrict__ values,
    const float* __restrict__ b, float* __restrict__ c) {
  int row = blockIdx.x * blockDim.y + threadIdx.y;
  int j = (blockIdx.y * 32 + threadIdx.x) * 4;
  if (row >= m || j >= n) return;
  float4 sum = make_float4(0, 0, 0, 0);
  for (int p = row_ptrs[row]; p < row_ptrs[row + 1]; ++p) {
    float a = values[p];
    float4 x = *(const float4*)(b + (size_t)col_idxs[p] * n + j);
    sum.x = __fmaf_rn(a, x.x, sum.x);
    sum.y = __fmaf_rn(a, x.y, sum.y);
    sum.z = __fmaf_rn(a, x.z, sum.z);
    sum.w = __fmaf_rn(a, x.w, sum.w);
  }
  *(float4*)(c + (size_t)row * n + j) = sum;
}
extern "C" __global__ void csr_pairs(int m, int n, const int* __restrict__ row_ptrs,
    const int* __restrict__ col_idxs, const float* __restrict__ values,
    const float* __restrict__ b, float* __restrict__ c) {
  int row = blockIdx.x * blockDim.y + threadIdx.y;
  int j = (blockIdx.y * 32 + threadIdx.x) * 2;
  if (row >= m || j >= n) return;
  float2 sum = make_float2(0, 0);
#define ADD(a, column) { float2 x = *(const float2*)(b + (size_t)(column) * n + j); \
  sum.x = __fmaf_rn(a, x.x, sum.x); sum.y = __fmaf_rn(a, x.y, sum.y); }
  int p = row_ptrs[row], end = row_ptrs[row + 1];
  for (; p < end && p % 4 != 0; ++p) ADD(values[p], col_idxs[p])
  for (; p + 4 <= end; p += 4) {
    int4 k = *(const int4*)(col_idxs + p);
    float4 a = *(const float4*)(values + p);
    ADD(a.x, k.x) ADD(a.y, k.y) ADD(a.z, k.z) ADD(a.w, k.w)
  }
  for (; p < end; ++p) ADD(values[p], col_idxs[p])
  *(float2*)(c + (size_t)row * n + j) = sum;
}
extern "C" __global__ void csr_shared_rows(int m, int n, const int* __restrict__ row_ptrs,
    const int* __restrict__ col_idxs, const float* __restrict__ values,
    const float* __restrict__ b, float* __restrict__ c) {
  int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= m) return;
  int j = blockIdx.y * 32 + threadIdx.x;
  float sum = 0;
  int end = row_ptrs[row + 1];
  for (int p = row_ptrs[row]; p < end; p += 32) {
    int q = p + threadIdx.x, column = 0;
    float value = 0;
    if (q < end) { column = col_idxs[q]; value = values[q]; }
    int count = min(32, end - p);
    for (int k = 0; k < count; ++k) {
      int at = __shfl_sync(~0u, column, k);
      float a = __shfl_sync(~0u, value, k);
      if (j < n) sum = __fmaf_rn(a, b[(size_t)at * n + j], sum);
    }
  }
  if (j < n) c[(size_t)row * n + j] = sum;
}
extern "C" __global__ void csr_staged(int m, int n, const int* __restrict__ row_ptrs,
    const unsigned short* __restrict__ col_idxs, const float* __restrict__ values,
    const float* __restrict__ b, float* __restrict__ c) {
  extern __shared__ float4 memory[];
  unsigned short* columns = (unsigned short*)memory;
  float* entries = (float*)memory + 32;
  int row = blockIdx.x, j = blockIdx.y * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int first = row_ptrs[row]; first < row_ptrs[row + 1]; first += 64) {
    int count = min(64, row_ptrs[row + 1] - first);
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
      columns[i] = col_idxs[first + i];
      entries[i] = values[first + i];
    }
    __syncthreads();
    if (j < n) for (int i = 0; i < count; ++i) {
      sum = __fmaf_rn(entries[i], b[(size_t)columns[i] * n + j], sum);
    }
    __syncthreads();
  }
  if (j < n) c[(size_t)row * n + j] = sum;
}
)";

/// `csr_warp`: a row's products with a vector, a warp a row: lane l sums entries l, l + 32 ...,
/// then lanes 16, 8, 4, 2 and 1 apart are added. `block_sums`: sums of a block's share, in one
/// block.
inline constexpr const char* k_reduction_text = R"(
extern "C" __global__ void csr_warp(int m, const int* __restrict__ row_ptrs,
    const int* __restrict__ col_idxs, const float* __restrict__ values,
    const float* __restrict__ b, float* __restrict__ c) {
  int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= m) return;
  float sum = 0;
  for (int p = row_ptrs[row] + threadIdx.x; p < row_ptrs[row + 1]; p += 32)
    sum = __fmaf_rn(values[p], b[col_idxs[p]], sum);
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_down_sync(0xffffffff, sum, d);
  if (threadIdx.x == 0) c[row] = sum;
}
extern "C" __global__ void block_sums(const float* __restrict__ x, float* __restrict__ y, int n) {
  __shared__ float part[32];
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    sum += x[i];
  for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
    for (int d = 16; d; d /= 2) sum += __shfl_up_sync(~0u, sum, d);
    if (threadIdx.x == 31) y[blockIdx.x] = sum;
  }
}
)";

/// C `[m x n]` = A `[m x k]` B `[k x n]`, sums in ascending order of k. `sgemm_edges`: 4 x 4 a
/// thread, any sizes. `sgemm_vectors`: 8 x 8 a thread, m and n multiples of 128, k of 8, two
/// stages.
inline constexpr const char* k_sgemm_text = R"(
#define T 64
extern "C" __global__ void __launch_bounds__(256) sgemm_edges(int m, int n, int k,
    const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c) {
  __shared__ float as[16][T];
  __shared__ float bs[16][T];
  int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  float sum[4][4] = {};
  for (int k0 = 0; k0 < k; k0 += 16) {
    for (int i = threadIdx.x; i < 16 * T; i += 256) {
      int kk = i % 16, r = i / 16, row = blockIdx.y * T + r;
      as[kk][r] = row < m && k0 + kk < k ? a[(size_t)row * k + k0 + kk] : 0;
      int kb = i / T, cc = i % T, col = blockIdx.x * T + cc;
      bs[kb][cc] = k0 + kb < k && col < n ? b[(size_t)(k0 + kb) * n + col] : 0;
    }
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < 16; ++kk) {
      float4 x = *(float4*)&as[kk][ty * 4], y = *(float4*)&bs[kk][tx * 4];
      float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
      if (k0 + kk < k)
#pragma unroll
        for (int i = 0; i < 16; ++i)
          sum[i / 4][i % 4] = __fmaf_rn(xs[i / 4], ys[i % 4], sum[i / 4][i % 4]);
    }
    __syncthreads();
  }
  for (int i = 0; i < 16; ++i) {
    int row = blockIdx.y * T + ty * 4 + i / 4, col = blockIdx.x * T + tx * 4 + i % 4;
    if (row < m && col < n) c[(size_t)row * n + col] = sum[i / 4][i % 4];
  }
}
extern "C" __global__ void __launch_bounds__(256) sgemm_vectors(int m, int n, int k,
    const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c) {
  __shared__ float as[2][8][128], bs[2][8][128];
  int t = threadIdx.x, at = 0;
  float sum[8][8] = {};
  const float* pa = a + (size_t)(blockIdx.y * 128 + t / 2) * k + (t % 2) * 4;
  const float* pb = b + (size_t)(t / 32) * n + blockIdx.x * 128 + (t % 32) * 4;
  float4 ra = *(const float4*)pa, rb = *(const float4*)pb;
#define PUT as[at][(t % 2) * 4][t / 2] = ra.x; as[at][(t % 2) * 4 + 1][t / 2] = ra.y; \
  as[at][(t % 2) * 4 + 2][t / 2] = ra.z; as[at][(t % 2) * 4 + 3][t / 2] = ra.w; \
  *(float4*)&bs[at][t / 32][(t % 32) * 4] = rb; __syncthreads();
  PUT
  for (int k0 = 0; k0 < k; k0 += 8) {
    bool more = k0 + 8 < k;
    if (more) {
      ra = *(const float4*)(pa + k0 + 8);
      rb = *(const float4*)(pb + (size_t)(k0 + 8) * n);
    }
#pragma unroll
    for (int kk = 0; kk < 8; ++kk) {
      float x[8], y[8];
      *(float4*)x = *(float4*)&as[at][kk][(t / 16) * 4];
      *(float4*)(x + 4) = *(float4*)&as[at][kk][64 + (t / 16) * 4];
      *(float4*)y = *(float4*)&bs[at][kk][(t % 16) * 4];
      *(float4*)(y + 4) = *(float4*)&bs[at][kk][64 + (t % 16) * 4];
#pragma unroll
      for (int i = 0; i < 64; ++i)
        sum[i / 8][i % 8] = __fmaf_rn(x[i / 8], y[i % 8], sum[i / 8][i % 8]);
    }
    if (more) { at ^= 1; PUT }
  }
  for (int i = 0; i < 8; ++i) for (int h = 0; h < 2; ++h)
    *(float4*)(c + (size_t)(blockIdx.y * 128 + (i / 4) * 64 + (t / 16) * 4 + i % 4) * n +
               blockIdx.x * 128 + h * 64 + (t % 16) * 4) =
        make_float4(sum[i][h * 4], sum[i][h * 4 + 1], sum[i][h * 4 + 2], sum[i][h * 4 + 3]);
}
)";

/// Divisions, roots, integer division, switches, calls, local arrays, generic pointers, constants.
/// All take (output, input, scalar, n).
inline constexpr const char* k_mixed_text = R"(
__device__ __noinline__ float quotient(float a, const float* p, int k) { return a / p[k]; }
extern "C" __global__ void call_and_divide(float* __restrict__ y, const float* __restrict__ x,
                                           float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float l[4];
  for (int k = 0; k < 4; k++) l[(k + n) & 3] = x[(i + k) % n];
  y[i] = quotient(a, x, i) + sqrtf(l[i & 3]) + (float)(i % 7) + fmaxf(x[i], a);
}
extern "C" __global__ void switch_tiles(float* __restrict__ y, const float* __restrict__ x,
                                        float a, int n) {
  int t = threadIdx.x;
  float sum = 0.0f;
  switch (blockIdx.x) {
#define TILE(i) case i: sum = __fmaf_rn(x[(t * 3 + i) % n], i * 0.25f, x[i]); \
  sum = __fmaf_rn(x[(i * 7) % n], sum, a); break;
    TILE(0) TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6) TILE(7) TILE(8) TILE(9) TILE(10)
    default: return;
  }
  y[blockIdx.x * 32 + t] = sum;
}
__constant__ float table[4] = {1.5f, 2.5f, -3.5f, 4.5f};
__device__ float kept[8] = {1, 2, 3};
extern "C" __global__ void generic(float* __restrict__ y, const float* __restrict__ x, float a,
                                   int n) {
  __shared__ float s[64];
  float l[16];
  int t = threadIdx.x;
  s[t % 64] = x[t];
  for (int i = 0; i < 16; ++i) l[i] = x[(i * n) % 32];
  __syncthreads();
  const float* p = t % 3 == 0 ? s : t % 3 == 1 ? l : x;
  y[t] = p[(t * 7) % 16] + table[(n + t) % 4] + kept[t % 8];
  float* q = t % 2 == 0 ? l : y + 32;
  q[t % 16] = 3.0f;
  y[t + 64] = l[t % 16] + s[(t + 5) % 32] + a;
}
extern "C" __global__ void nested(float* __restrict__ y, const float* __restrict__ x, float a,
                                  int n) {
  int i = threadIdx.x, s = 0;
  for (int k = 0; k < i; ++k) {
    if (k & 1) {
      for (int b = 0; b < k; ++b) {
        if (b == n) break;
        s += b;
        if (s == 77) { y[i] = -1; return; }
      }
    } else {
      s ^= k;
    }
    if (s % 5 == 4) continue;
    s *= 3;
  }
  y[i] = s + x[i] * a;
}
)";

}  // namespace spjit::testing_support

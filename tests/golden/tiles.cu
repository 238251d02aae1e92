// golden: emitter version 6
// unit spjit_kernel
// spjit, CUDA C++ emitter 6.
// C [5 x n] = A [5 x 5] * B [5 x n], A with 7 nonzeros, 7 of them here.
// Tile 2x32 u2048; n = 40, ldb = 40, ldc = 40.

extern __shared__ float spjit_shared[];

static __device__ __forceinline__ float* spjit_of_tile() {
  return spjit_shared + threadIdx.y * 1056u;
}

static __device__ __forceinline__ void spjit_barrier() {
  asm volatile("bar.sync %0, 32;" ::"r"(threadIdx.y) : "memory");
}

// Features [0, features) of the block's tokens, from b on, and zeros behind them.
static __device__ __forceinline__ void spjit_stage(const float* __restrict__ b, unsigned long long stride, unsigned features, unsigned left) {
  const unsigned feature = threadIdx.x % 32u;
  const unsigned token = threadIdx.x / 32u;
  spjit_barrier();
#pragma unroll 4
  for (unsigned i = 0; i < 32u; ++i) {
    const bool inside = feature < features && token + i * 1u < left;
    spjit_of_tile()[feature * 33u + token + i * 1u] = inside ? __ldg(b + i * stride) : 0.0f;
  }
  spjit_barrier();
}

// One row of C for each feature of shared memory, or zeros.
static __device__ __forceinline__ void spjit_finish(float* c, unsigned long long stride, unsigned row, unsigned rows, bool zeros, unsigned left) {
  const unsigned feature = threadIdx.x % 32u;
  const unsigned token = threadIdx.x / 32u;
  if (feature >= rows) return;
#pragma unroll 4
  for (unsigned i = 0; i < 32u; ++i) {
    if (token + i * 1u >= left) break;
    float y = zeros ? 0.0f : spjit_of_tile()[feature * 33u + token + i * 1u];
    c[row + i * stride] = y;
  }
}

static __device__ __forceinline__ void spjit_tile_0(const float* __restrict__ b, float* __restrict__ c, unsigned left) {
  float c0 = 0.0f;
  float c1 = 0.0f;
  spjit_stage(b + 0, 40ull, 5u, left);
  const float b0 = spjit_of_tile()[0u + threadIdx.x];
  c1 = __fmaf_rn(0x1p+2f, b0, c1);
  const float b1 = spjit_of_tile()[33u + threadIdx.x];
  c0 = __fmaf_rn(0x1.8p+1f, b1, c0);
  c1 = __fmaf_rn(0x1.4p+2f, b1, c1);
  const float b4 = spjit_of_tile()[132u + threadIdx.x];
  c1 = __fmaf_rn(0x1.8p+2f, b4, c1);
  spjit_barrier();
  spjit_of_tile()[0u + threadIdx.x] = c0;
  spjit_of_tile()[33u + threadIdx.x] = c1;
  spjit_barrier();
  spjit_finish(c, 40ull, 2u + threadIdx.x % 32u, 2u, false, left);
}

static __device__ const unsigned spjit_rows_1[2] = {0,4,};
static __device__ __forceinline__ void spjit_tile_1(const float* __restrict__ b, float* __restrict__ c, unsigned left) {
  float c0 = 0.0f;
  float c1 = 0.0f;
  spjit_stage(b + 0, 40ull, 5u, left);
  const float b0 = spjit_of_tile()[0u + threadIdx.x];
  c0 = __fmaf_rn(0x1p+0f, b0, c0);
  const float b3 = spjit_of_tile()[99u + threadIdx.x];
  c0 = __fmaf_rn(0x1p+1f, b3, c0);
  c1 = __fmaf_rn(0x1.cp+2f, b3, c1);
  spjit_barrier();
  spjit_of_tile()[0u + threadIdx.x] = c0;
  spjit_of_tile()[33u + threadIdx.x] = c1;
  spjit_barrier();
  spjit_finish(c, 40ull, __ldg(spjit_rows_1 + 0 + min(threadIdx.x % 32u, 1u)), 2u, false, left);
}

static __device__ __forceinline__ void spjit_tile_2(const float* __restrict__ b, float* __restrict__ c, unsigned left) {
  spjit_finish(c, 40ull, 1u + threadIdx.x % 32u, 1u, true, left);
}

extern "C" __global__ void __launch_bounds__(64, 1)
spjit_spmm(const float* __restrict__ b, float* __restrict__ c, const float* __restrict__ scale, const float* __restrict__ bias, const float* residual, unsigned n, unsigned ldb, unsigned ldc, unsigned ldr, long long b_distance, long long c_distance, long long residual_distance, const float4* __restrict__ values) {
  b += blockIdx.z * b_distance;
  c += blockIdx.z * c_distance;
  const unsigned tile = blockIdx.x * 2u + threadIdx.y;
  if (tile >= 3u) return;
  const unsigned j = blockIdx.y * 32u + threadIdx.x;
  const unsigned left = 40u - blockIdx.y * 32u;
  const unsigned long long first = blockIdx.y * 32u + threadIdx.x / 32u;
  const unsigned column = min(j, 40u - 1u);
  const float* const of_b = b + first * 40ull + threadIdx.x % 32u;
  float* const of_c = c + first * 40ull;
  {
    switch (tile) {
      case 0:
        return spjit_tile_0(of_b, of_c, left);
      case 1:
        return spjit_tile_1(of_b, of_c, left);
      case 2:
        return spjit_tile_2(of_b, of_c, left);
    }
  }
}

// golden: emitter version 6
// unit spjit_kernel
// spjit, CUDA C++ emitter 6.
// C [9 x n] = A [9 x 12] * B [12 x n], A with 32 nonzeros, 0 of them here.
// Tile 4x32 u12; n = 40, ldb = 64, ldc = 40.

extern "C" __device__ __noinline__ __attribute__((noreturn)) void spjit_tile_0(const float* __restrict__ b, float* __restrict__ c);
extern "C" __device__ __noinline__ __attribute__((noreturn)) void spjit_tile_1(const float* __restrict__ b, float* __restrict__ c);
extern "C" __device__ __noinline__ __attribute__((noreturn)) void spjit_tile_2(const float* __restrict__ b, float* __restrict__ c);

extern "C" __global__ void __launch_bounds__(32, 1)
spjit_spmm(const float* __restrict__ b, float* __restrict__ c, const float* __restrict__ scale, const float* __restrict__ bias, const float* residual, unsigned n, unsigned ldb, unsigned ldc, unsigned ldr, long long b_distance, long long c_distance, long long residual_distance, const float4* __restrict__ values) {
  b += blockIdx.z * b_distance;
  c += blockIdx.z * c_distance;
  const unsigned j = blockIdx.y * 32u + threadIdx.x;
  if (j < 40u) {
    switch (blockIdx.x) {
      case 0:
        return spjit_tile_0(b + j, c + j);
      case 1:
        return spjit_tile_1(b + j, c + j);
      case 2:
        return spjit_tile_2(b + j, c + j);
    }
  }
}
// unit spjit_unit_1
// spjit, CUDA C++ emitter 6.
// C [9 x n] = A [9 x 12] * B [12 x n], A with 32 nonzeros, 13 of them here.
// Tile 4x32 u12; n = 40, ldb = 64, ldc = 40.

extern "C" __device__ __noinline__ __attribute__((noreturn)) void spjit_tile_0(const float* __restrict__ b, float* __restrict__ c) {
  float c0 = 0.0f;
  float c1 = 0.0f;
  float c2 = 0.0f;
  float c3 = 0.0f;
  const float b0 = __ldg(b + 0);
  c3 = __fmaf_rn(-0x1.5fd08p-4f, b0, c3);
  const float b2 = __ldg(b + 128);
  c1 = __fmaf_rn(0x1.e7da6p-4f, b2, c1);
  const float b3 = __ldg(b + 192);
  c0 = __fmaf_rn(0x1.41cd1cp-1f, b3, c0);
  c1 = __fmaf_rn(-0x1.664b08p-2f, b3, c1);
  const float b4 = __ldg(b + 256);
  c0 = __fmaf_rn(0x1.0c4e44p-1f, b4, c0);
  const float b5 = __ldg(b + 320);
  c0 = __fmaf_rn(-0x1.51aebp-3f, b5, c0);
  c3 = __fmaf_rn(0x1.24318p-2f, b5, c3);
  const float b6 = __ldg(b + 384);
  c2 = __fmaf_rn(0x1.a13874p-1f, b6, c2);
  const float b7 = __ldg(b + 448);
  c1 = __fmaf_rn(-0x1.a3c7cp-5f, b7, c1);
  c3 = __fmaf_rn(-0x1.a7984p-4f, b7, c3);
  const float b10 = __ldg(b + 640);
  c3 = __fmaf_rn(-0x1.7f5ae8p-1f, b10, c3);
  const float b11 = __ldg(b + 704);
  c1 = __fmaf_rn(0x1.deb618p-2f, b11, c1);
  c3 = __fmaf_rn(0x1.570bcp-4f, b11, c3);
  c[80] = c0;
  c[120] = c1;
  c[240] = c2;
  c[320] = c3;
  asm volatile("exit;");
  __builtin_unreachable();
}

// unit spjit_unit_2
// spjit, CUDA C++ emitter 6.
// C [9 x n] = A [9 x 12] * B [12 x n], A with 32 nonzeros, 19 of them here.
// Tile 4x32 u12; n = 40, ldb = 64, ldc = 40.

extern "C" __device__ __noinline__ __attribute__((noreturn)) void spjit_tile_1(const float* __restrict__ b, float* __restrict__ c) {
  float c0 = 0.0f;
  float c1 = 0.0f;
  float c2 = 0.0f;
  float c3 = 0.0f;
  const float b0 = __ldg(b + 0);
  c0 = __fmaf_rn(0x1.8c501p-2f, b0, c0);
  c3 = __fmaf_rn(0x1.dea5bcp-1f, b0, c3);
  const float b1 = __ldg(b + 64);
  c2 = __fmaf_rn(0x1.d248ccp-1f, b1, c2);
  c3 = __fmaf_rn(0x1.c8d06p-1f, b1, c3);
  const float b2 = __ldg(b + 128);
  c0 = __fmaf_rn(-0x1.8c31d8p-1f, b2, c0);
  const float b3 = __ldg(b + 192);
  c0 = __fmaf_rn(0x1.6d4e3cp-1f, b3, c0);
  const float b4 = __ldg(b + 256);
  c1 = __fmaf_rn(-0x1.865c08p-1f, b4, c1);
  c3 = __fmaf_rn(0x1.13b4p-8f, b4, c3);
  const float b5 = __ldg(b + 320);
  c0 = __fmaf_rn(-0x1.74e32p-1f, b5, c0);
  c1 = __fmaf_rn(0x1.e92618p-1f, b5, c1);
  const float b6 = __ldg(b + 384);
  c0 = __fmaf_rn(0x1.067ccp-4f, b6, c0);
  const float b7 = __ldg(b + 448);
  c0 = __fmaf_rn(0x1.7a62dp-1f, b7, c0);
  c2 = __fmaf_rn(0x1.8cd0dp-2f, b7, c2);
  const float b8 = __ldg(b + 512);
  c0 = __fmaf_rn(-0x1.1bac48p-1f, b8, c0);
  c1 = __fmaf_rn(-0x1.42bc08p-1f, b8, c1);
  c2 = __fmaf_rn(-0x1.b566ep-3f, b8, c2);
  c3 = __fmaf_rn(0x1.2a2c9cp-1f, b8, c3);
  const float b9 = __ldg(b + 576);
  c0 = __fmaf_rn(-0x1.55d78p-2f, b9, c0);
  c3 = __fmaf_rn(-0x1.1e241cp-1f, b9, c3);
  c[0] = c0;
  c[40] = c1;
  c[200] = c2;
  c[280] = c3;
  asm volatile("exit;");
  __builtin_unreachable();
}

// unit spjit_unit_3
// spjit, CUDA C++ emitter 6.
// C [9 x n] = A [9 x 12] * B [12 x n], A with 32 nonzeros, 0 of them here.
// Tile 4x32 u12; n = 40, ldb = 64, ldc = 40.

extern "C" __device__ __noinline__ __attribute__((noreturn)) void spjit_tile_2(const float* __restrict__ b, float* __restrict__ c) {
  c[160] = 0.0f;
  asm volatile("exit;");
  __builtin_unreachable();
}


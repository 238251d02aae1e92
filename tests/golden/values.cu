// golden: emitter version 6
// unit spjit_kernel
// spjit, CUDA C++ emitter 6.
// C [9 x n] = A [9 x 12] * B [12 x n], A with 32 nonzeros, 0 of them here.
// Tile 4x32 u20; n = 40, ldb = 40, ldc = 40.

extern "C" __device__ __noinline__ __attribute__((noreturn)) void spjit_tile_0(const float* __restrict__ b, float* __restrict__ c, const float4* __restrict__ values);
extern "C" __device__ __noinline__ __attribute__((noreturn)) void spjit_tile_1(const float* __restrict__ b, float* __restrict__ c, const float4* __restrict__ values);
extern "C" __device__ __noinline__ __attribute__((noreturn)) void spjit_tile_2(const float* __restrict__ b, float* __restrict__ c, const float4* __restrict__ values);

extern "C" __global__ void __launch_bounds__(32, 1)
spjit_spmm(const float* __restrict__ b, float* __restrict__ c, const float* __restrict__ scale, const float* __restrict__ bias, const float* residual, unsigned n, unsigned ldb, unsigned ldc, unsigned ldr, long long b_distance, long long c_distance, long long residual_distance, const float4* __restrict__ values) {
  b += blockIdx.z * b_distance;
  c += blockIdx.z * c_distance;
  const unsigned j = blockIdx.y * 32u + threadIdx.x;
  if (j < 40u) {
    switch (blockIdx.x) {
      case 0:
        return spjit_tile_0(b + j, c + j, values);
      case 1:
        return spjit_tile_1(b + j, c + j, values);
      case 2:
        return spjit_tile_2(b + j, c + j, values);
    }
  }
}
// unit spjit_unit_1
// spjit, CUDA C++ emitter 6.
// C [9 x n] = A [9 x 12] * B [12 x n], A with 32 nonzeros, 13 of them here.
// Tile 4x32 u20; n = 40, ldb = 40, ldc = 40.

extern "C" __device__ __noinline__ __attribute__((noreturn)) void spjit_tile_0(const float* __restrict__ b, float* __restrict__ c, const float4* __restrict__ values) {
  float c0 = 0.0f;
  float c1 = 0.0f;
  float c2 = 0.0f;
  float c3 = 0.0f;
  const float b0 = __ldg(b + 0);
  const float4 a0 = __ldg(values + 0);
  c3 = __fmaf_rn(a0.x, b0, c3);
  const float b2 = __ldg(b + 80);
  c1 = __fmaf_rn(a0.y, b2, c1);
  const float b3 = __ldg(b + 120);
  c0 = __fmaf_rn(a0.z, b3, c0);
  c1 = __fmaf_rn(a0.w, b3, c1);
  const float b4 = __ldg(b + 160);
  const float4 a1 = __ldg(values + 1);
  c0 = __fmaf_rn(a1.x, b4, c0);
  const float b5 = __ldg(b + 200);
  c0 = __fmaf_rn(a1.y, b5, c0);
  c3 = __fmaf_rn(a1.z, b5, c3);
  const float b6 = __ldg(b + 240);
  c2 = __fmaf_rn(a1.w, b6, c2);
  const float b7 = __ldg(b + 280);
  const float4 a2 = __ldg(values + 2);
  c1 = __fmaf_rn(a2.x, b7, c1);
  c3 = __fmaf_rn(a2.y, b7, c3);
  const float b10 = __ldg(b + 400);
  c3 = __fmaf_rn(a2.z, b10, c3);
  const float b11 = __ldg(b + 440);
  c1 = __fmaf_rn(a2.w, b11, c1);
  const float4 a3 = __ldg(values + 3);
  c3 = __fmaf_rn(a3.x, b11, c3);
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
// Tile 4x32 u20; n = 40, ldb = 40, ldc = 40.

extern "C" __device__ __noinline__ __attribute__((noreturn)) void spjit_tile_1(const float* __restrict__ b, float* __restrict__ c, const float4* __restrict__ values) {
  float c0 = 0.0f;
  float c1 = 0.0f;
  float c2 = 0.0f;
  float c3 = 0.0f;
  const float b0 = __ldg(b + 0);
  const float4 a4 = __ldg(values + 4);
  c0 = __fmaf_rn(a4.x, b0, c0);
  c3 = __fmaf_rn(a4.y, b0, c3);
  const float b1 = __ldg(b + 40);
  c2 = __fmaf_rn(a4.z, b1, c2);
  c3 = __fmaf_rn(a4.w, b1, c3);
  const float b2 = __ldg(b + 80);
  const float4 a5 = __ldg(values + 5);
  c0 = __fmaf_rn(a5.x, b2, c0);
  const float b3 = __ldg(b + 120);
  c0 = __fmaf_rn(a5.y, b3, c0);
  const float b4 = __ldg(b + 160);
  c1 = __fmaf_rn(a5.z, b4, c1);
  c3 = __fmaf_rn(a5.w, b4, c3);
  const float b5 = __ldg(b + 200);
  const float4 a6 = __ldg(values + 6);
  c0 = __fmaf_rn(a6.x, b5, c0);
  c1 = __fmaf_rn(a6.y, b5, c1);
  const float b6 = __ldg(b + 240);
  c0 = __fmaf_rn(a6.z, b6, c0);
  const float b7 = __ldg(b + 280);
  c0 = __fmaf_rn(a6.w, b7, c0);
  const float4 a7 = __ldg(values + 7);
  c2 = __fmaf_rn(a7.x, b7, c2);
  const float b8 = __ldg(b + 320);
  c0 = __fmaf_rn(a7.y, b8, c0);
  c1 = __fmaf_rn(a7.z, b8, c1);
  c2 = __fmaf_rn(a7.w, b8, c2);
  const float4 a8 = __ldg(values + 8);
  c3 = __fmaf_rn(a8.x, b8, c3);
  const float b9 = __ldg(b + 360);
  c0 = __fmaf_rn(a8.y, b9, c0);
  c3 = __fmaf_rn(a8.z, b9, c3);
  c[0] = c0;
  c[40] = c1;
  c[200] = c2;
  c[280] = c3;
  asm volatile("exit;");
  __builtin_unreachable();
}

extern "C" __device__ __noinline__ __attribute__((noreturn)) void spjit_tile_2(const float* __restrict__ b, float* __restrict__ c, const float4* __restrict__ values) {
  c[160] = 0.0f;
  asm volatile("exit;");
  __builtin_unreachable();
}


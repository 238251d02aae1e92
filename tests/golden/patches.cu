// golden: emitter version 6
// unit spjit_kernel
// spjit, CUDA C++ emitter 6.
// C [9 x n] = A [9 x 18] * B [18 x n], A with 49 nonzeros, 49 of them here.
// Tile 4x32 u2048; n = 30, ldb = 30, ldc = 30.
// B is patches of an image: 2x6x5, kernel 3x3, pad 1.

static __device__ __forceinline__ void spjit_tile_0(const float* __restrict__ b, float* __restrict__ c, unsigned mask0) {
  float c0 = 0.0f;
  float c1 = 0.0f;
  float c2 = 0.0f;
  const float b2 = (mask0 & 4u) == 0 ? 0.0f : __ldg(b + 2);
  c1 = __fmaf_rn(0x1.e7da6p-4f, b2, c1);
  c2 = __fmaf_rn(-0x1.3f7304p-1f, b2, c2);
  const float b5 = (mask0 & 32u) == 0 ? 0.0f : __ldg(b + 7);
  c1 = __fmaf_rn(0x1.a1bfccp-1f, b5, c1);
  const float b6 = (mask0 & 64u) == 0 ? 0.0f : __ldg(b + 10);
  c1 = __fmaf_rn(0x1.52f98p-3f, b6, c1);
  c2 = __fmaf_rn(-0x1.70837p-3f, b6, c2);
  const float b7 = (mask0 & 128u) == 0 ? 0.0f : __ldg(b + 11);
  c1 = __fmaf_rn(-0x1.a3c7cp-5f, b7, c1);
  c2 = __fmaf_rn(-0x1.ee45ep-4f, b7, c2);
  const float b9 = (mask0 & 1u) == 0 ? 0.0f : __ldg(b + 30);
  c1 = __fmaf_rn(0x1.b4491cp-1f, b9, c1);
  c2 = __fmaf_rn(-0x1.fbc9acp-1f, b9, c2);
  const float b12 = (mask0 & 8u) == 0 ? 0.0f : __ldg(b + 35);
  c0 = __fmaf_rn(0x1.aeffd8p-2f, b12, c0);
  c1 = __fmaf_rn(-0x1.f868cp-1f, b12, c1);
  const float b13 = __ldg(b + 36);
  c1 = __fmaf_rn(0x1.69c2fp-1f, b13, c1);
  c2 = __fmaf_rn(0x1.e4bdcp-3f, b13, c2);
  const float b14 = (mask0 & 32u) == 0 ? 0.0f : __ldg(b + 37);
  c1 = __fmaf_rn(-0x1.0c8748p-2f, b14, c1);
  const float b16 = (mask0 & 128u) == 0 ? 0.0f : __ldg(b + 41);
  c0 = __fmaf_rn(-0x1.c34ee8p-1f, b16, c0);
  c[60] = c0;
  c[90] = c1;
  c[120] = c2;
}

static __device__ __forceinline__ void spjit_tile_1(const float* __restrict__ b, float* __restrict__ c, unsigned mask0) {
  float c0 = 0.0f;
  float c1 = 0.0f;
  float c2 = 0.0f;
  const float b0 = (mask0 & 1u) == 0 ? 0.0f : __ldg(b + 0);
  c0 = __fmaf_rn(0x1.8c501p-2f, b0, c0);
  const float b4 = __ldg(b + 6);
  c0 = __fmaf_rn(-0x1.66f68p-6f, b4, c0);
  const float b6 = (mask0 & 64u) == 0 ? 0.0f : __ldg(b + 10);
  c2 = __fmaf_rn(0x1.633a1cp-1f, b6, c2);
  const float b9 = (mask0 & 1u) == 0 ? 0.0f : __ldg(b + 30);
  c2 = __fmaf_rn(-0x1.1e241cp-1f, b9, c2);
  const float b10 = (mask0 & 2u) == 0 ? 0.0f : __ldg(b + 31);
  c0 = __fmaf_rn(-0x1.8a862p-3f, b10, c0);
  c2 = __fmaf_rn(0x1.535b8p-5f, b10, c2);
  const float b11 = (mask0 & 4u) == 0 ? 0.0f : __ldg(b + 32);
  c1 = __fmaf_rn(0x1.87583p-2f, b11, c1);
  const float b12 = (mask0 & 8u) == 0 ? 0.0f : __ldg(b + 35);
  c2 = __fmaf_rn(-0x1.648504p-1f, b12, c2);
  const float b13 = __ldg(b + 36);
  c0 = __fmaf_rn(0x1.9f5cp-7f, b13, c0);
  c1 = __fmaf_rn(-0x1.535034p-1f, b13, c1);
  const float b14 = (mask0 & 32u) == 0 ? 0.0f : __ldg(b + 37);
  c0 = __fmaf_rn(-0x1.945b08p-2f, b14, c0);
  const float b16 = (mask0 & 128u) == 0 ? 0.0f : __ldg(b + 41);
  c0 = __fmaf_rn(-0x1.9cec5p-3f, b16, c0);
  c1 = __fmaf_rn(-0x1.9a04acp-1f, b16, c1);
  c2 = __fmaf_rn(0x1.8e52p-2f, b16, c2);
  c[0] = c0;
  c[30] = c1;
  c[210] = c2;
}

static __device__ __forceinline__ void spjit_tile_2(const float* __restrict__ b, float* __restrict__ c, unsigned mask0) {
  float c0 = 0.0f;
  float c1 = 0.0f;
  float c2 = 0.0f;
  const float b1 = (mask0 & 2u) == 0 ? 0.0f : __ldg(b + 1);
  c0 = __fmaf_rn(0x1.d248ccp-1f, b1, c0);
  const float b2 = (mask0 & 4u) == 0 ? 0.0f : __ldg(b + 2);
  c0 = __fmaf_rn(-0x1.f201e8p-1f, b2, c0);
  const float b3 = (mask0 & 8u) == 0 ? 0.0f : __ldg(b + 5);
  c0 = __fmaf_rn(-0x1.ca5fd8p-1f, b3, c0);
  c1 = __fmaf_rn(0x1.87e618p-1f, b3, c1);
  c2 = __fmaf_rn(-0x1.b0b988p-2f, b3, c2);
  const float b6 = (mask0 & 64u) == 0 ? 0.0f : __ldg(b + 10);
  c0 = __fmaf_rn(0x1.b9656p-3f, b6, c0);
  const float b7 = (mask0 & 128u) == 0 ? 0.0f : __ldg(b + 11);
  c0 = __fmaf_rn(0x1.8cd0dp-2f, b7, c0);
  c2 = __fmaf_rn(-0x1.a7984p-4f, b7, c2);
  const float b8 = (mask0 & 256u) == 0 ? 0.0f : __ldg(b + 12);
  c1 = __fmaf_rn(0x1.78308p-6f, b8, c1);
  const float b9 = (mask0 & 1u) == 0 ? 0.0f : __ldg(b + 30);
  c0 = __fmaf_rn(0x1.ad42c8p-1f, b9, c0);
  const float b11 = (mask0 & 4u) == 0 ? 0.0f : __ldg(b + 32);
  c0 = __fmaf_rn(-0x1.d8f49cp-1f, b11, c0);
  c2 = __fmaf_rn(0x1.570bcp-4f, b11, c2);
  const float b13 = __ldg(b + 36);
  c0 = __fmaf_rn(0x1.e6dc0cp-1f, b13, c0);
  c1 = __fmaf_rn(-0x1.3faadp-3f, b13, c1);
  c2 = __fmaf_rn(-0x1.8fbd34p-1f, b13, c2);
  const float b14 = (mask0 & 32u) == 0 ? 0.0f : __ldg(b + 37);
  c0 = __fmaf_rn(-0x1.eb0468p-1f, b14, c0);
  const float b16 = (mask0 & 128u) == 0 ? 0.0f : __ldg(b + 41);
  c0 = __fmaf_rn(0x1.cfc97p-2f, b16, c0);
  const float b17 = (mask0 & 256u) == 0 ? 0.0f : __ldg(b + 42);
  c0 = __fmaf_rn(-0x1.03df1p-2f, b17, c0);
  c1 = __fmaf_rn(0x1.275d68p-2f, b17, c1);
  c2 = __fmaf_rn(0x1.66d24p-4f, b17, c2);
  c[150] = c0;
  c[180] = c1;
  c[240] = c2;
}

extern "C" __global__ void __launch_bounds__(32, 1)
spjit_spmm(const float* __restrict__ b, float* __restrict__ c, const float* __restrict__ scale, const float* __restrict__ bias, const float* residual, unsigned n, unsigned ldb, unsigned ldc, unsigned ldr, long long b_distance, long long c_distance, long long residual_distance, const float4* __restrict__ values) {
  b += blockIdx.z * b_distance;
  c += blockIdx.z * c_distance;
  const unsigned j = blockIdx.y * 32u + threadIdx.x;
  const int y = (int)(j / 5u) * 1 - 1;
  const int x = (int)(j % 5u) * 1 - 1;
  const float* const of_b = b + ((long long)y * 5 + x) * 1ll;
  unsigned columns = 2u;
  if ((unsigned)(x + 0) < 5u) columns |= 1u;
  if ((unsigned)(x + 2) < 5u) columns |= 4u;
  unsigned mask0 = 0;
  if ((unsigned)(y + 0) < 6u) mask0 |= columns << 0;
  mask0 |= columns << 3;
  if ((unsigned)(y + 2) < 6u) mask0 |= columns << 6;
  if (j < 30u) {
    switch (blockIdx.x) {
      case 0:
        return spjit_tile_0(of_b, c + j, mask0);
      case 1:
        return spjit_tile_1(of_b, c + j, mask0);
      case 2:
        return spjit_tile_2(of_b, c + j, mask0);
    }
  }
}

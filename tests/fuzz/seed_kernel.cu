// Compiled by scripts/data/make_fuzz_seeds.sh: a kernel with launch bounds, shared memory and a function
// that is not inlined.

__device__ __noinline__ float squared(float x) { return x * x; }

extern "C" __global__ __launch_bounds__(128) void scale(float* c, const float* b, int n) {
  __shared__ float part[128];
  const int i = blockIdx.x * 128 + threadIdx.x;
  part[threadIdx.x] = i < n ? squared(b[i]) : 0.0f;
  __syncthreads();
  if (i < n) c[i] = part[127 - threadIdx.x];
}

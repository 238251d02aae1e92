#include "bench/gpu_constants/micro_kernels.hpp"

#include <fmt/format.h>

#include "kernels/cuda/code/ptx_text.hpp"

namespace spjit::bench {
namespace {

constexpr const char* k_source = R"cuda(
typedef unsigned long long u64;

#define F(i) f##i = __fmaf_rn(f##i, x, y);
#define I(i) asm volatile("lop3.b32 %0, %0, %1, %2, 0xe8;" : "+r"(u##i) : "r"(v), "r"(w));
#define FI(i) F(i) I(i)
#define EACH(op) op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7)
#define TIMES_4(text) text text text text
#define TIMES_16(text) TIMES_4(TIMES_4(text))
#define TIMES_32(text) TIMES_16(text) TIMES_16(text)

#define FLOATS const float t = threadIdx.x; \
  float f0 = t, f1 = t + 1, f2 = t + 2, f3 = t + 3, f4 = t + 4, f5 = t + 5, f6 = t + 6, f7 = t + 7;
#define FLOAT_SUM (f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7)
#define INTEGERS(seed) const unsigned k = threadIdx.x + (seed); \
  unsigned u0 = k, u1 = k + 1, u2 = k + 2, u3 = k + 3, u4 = k + 4, u5 = k + 5, u6 = k + 6, \
           u7 = k + 7;
#define INTEGER_SUM (u0 + u1 + u2 + u3 + u4 + u5 + u6 + u7)

__device__ unsigned thread_of_grid() { return blockIdx.x * blockDim.x + threadIdx.x; }

__device__ void tell(u64* clocks, long long begin, long long end) {
  if ((threadIdx.x & 31) != 0) return;
  u64* mine = clocks + 2 * (u64)(thread_of_grid() >> 5);
  mine[0] = begin;
  mine[1] = end;
}

extern "C" __global__ void fp32(float* out, u64* clocks, int rounds, float x, float y) {
  FLOATS
  __syncthreads();
  const long long begin = clock64();
#pragma unroll 1
  for (int r = 0; r < rounds; ++r) { TIMES_32(EACH(F)) }
  const long long end = clock64();
  out[thread_of_grid()] = FLOAT_SUM;
  tell(clocks, begin, end);
}

extern "C" __global__ void fp32_chain(float* out, u64* clocks, int rounds, float x, float y) {
  float f0 = threadIdx.x;
  __syncthreads();
  const long long begin = clock64();
#pragma unroll 1
  for (int r = 0; r < rounds; ++r) { TIMES_16(TIMES_16(F(0))) }
  const long long end = clock64();
  out[thread_of_grid()] = f0;
  tell(clocks, begin, end);
}

extern "C" __global__ void integer(unsigned* out, u64* clocks, int rounds, unsigned v,
                                   unsigned w) {
  INTEGERS(v)
  __syncthreads();
  const long long begin = clock64();
#pragma unroll 1
  for (int r = 0; r < rounds; ++r) { TIMES_32(EACH(I)) }
  const long long end = clock64();
  out[thread_of_grid()] = INTEGER_SUM;
  tell(clocks, begin, end);
}

extern "C" __global__ void mixed(float* out, u64* clocks, int rounds, float x, float y) {
  FLOATS
  INTEGERS(1)
  const unsigned v = k * 3, w = k * 5;
  __syncthreads();
  const long long begin = clock64();
#pragma unroll 1
  for (int r = 0; r < rounds; ++r) { TIMES_16(EACH(FI)) }
  const long long end = clock64();
  out[thread_of_grid()] = FLOAT_SUM + (float)INTEGER_SUM;
  tell(clocks, begin, end);
}

extern "C" __global__ void chase(u64 start, u64* out, u64* clocks, int rounds) {
  u64 p = start;
  const long long begin = clock64();
#pragma unroll 1
  for (int r = 0; r < rounds; ++r) {
    TIMES_16(asm volatile("ld.global.u64 %0, [%0];" : "+l"(p) : : "memory");)
  }
  const long long end = clock64();
  out[thread_of_grid()] = p;
  tell(clocks, begin, end);
}

extern "C" __global__ void __launch_bounds__(1024)
stream(const float4* data, float* out, u64* clocks, unsigned apart, unsigned first,
       unsigned count, int passes) {
  const float4* mine = data + (u64)apart * blockIdx.x;
  const unsigned offset = first * blockIdx.x;
  float sum = 0;
  __syncthreads();
  const long long begin = clock64();
#pragma unroll 1
  for (int pass = 0; pass < passes; ++pass) {
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < count; i += 4 * blockDim.x) {
      float4 part[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        unsigned at = offset + i + j * blockDim.x;
        if (at >= count) at -= count;
        asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(part[j].x), "=f"(part[j].y), "=f"(part[j].z), "=f"(part[j].w)
                     : "l"(mine + at));
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) sum += part[j].x + part[j].y + part[j].z + part[j].w;
    }
  }
  const long long end = clock64();
  out[thread_of_grid()] = sum;
  tell(clocks, begin, end);
}
)cuda";

constexpr const char* k_straight_begin = R"(
.visible .entry straight(.param .u64 out, .param .u64 clocks, .param .u32 rounds, .param .f32 x,
                         .param .f32 y)
{
.reg .f32 a<8>, mul, plus;
.reg .u64 to, begin, end, told;
.reg .u32 left, thread, block, size, lane, warp;
.reg .pred again, first;
ld.param.u64 to, [out];
ld.param.u64 told, [clocks];
ld.param.u32 left, [rounds];
ld.param.f32 mul, [x];
ld.param.f32 plus, [y];
mov.u32 thread, %tid.x;
mov.u32 block, %ctaid.x;
mov.u32 size, %ntid.x;
and.b32 lane, thread, 31;
mad.lo.u32 thread, block, size, thread;
shr.u32 warp, thread, 5;
cvt.rn.f32.u32 a0, thread;
)";

constexpr const char* k_straight_end = R"(
sub.u32 left, left, 1;
setp.ne.u32 again, left, 0;
@again bra turn;
mov.u64 end, %clock64;
mad.wide.u32 to, thread, 4, to;
st.global.f32 [to], a0;
setp.ne.u32 first, lane, 0;
@first bra done;
mad.wide.u32 told, warp, 16, told;
st.global.u64 [told], begin;
st.global.u64 [told+8], end;
done:
ret;
}
)";

constexpr int k_chains = 8;

}  // namespace

std::string micro_kernels_source() { return k_source; }

std::string straight_line_ptx(std::int64_t instructions, int arch) {
  std::string text = fmt::format(".version {}\n.target sm_{}\n.address_size 64\n{}",
                                 ptx_version(arch), arch, k_straight_begin);
  for (int i = 1; i < k_chains; ++i) text += fmt::format("add.f32 a{}, a{}, mul;\n", i, i - 1);
  text += "bar.sync 0;\nmov.u64 begin, %clock64;\nturn:\n";
  for (std::int64_t i = 0; i < instructions; ++i) {
    const std::int64_t chain = i % k_chains;
    text += fmt::format("fma.rn.f32 a{0}, a{0}, mul, plus;\n", chain);
  }
  std::string end = k_straight_end;
  std::string sums;
  for (int i = 1; i < k_chains; ++i) sums += fmt::format("add.f32 a0, a0, a{};\n", i);
  const std::string after_clock = "mov.u64 end, %clock64;\n";
  end.insert(end.find(after_clock) + after_clock.size(), sums);
  return text + end;
}

std::vector<MicroProgram> micro_programs(const std::vector<std::int64_t>& code_bytes, int arch) {
  std::vector<MicroProgram> programs;
  SourceUnit unit;
  unit.name = "micro";
  unit.text = micro_kernels_source();
  unit.kernel = "fp32";
  programs.push_back({unit.name, unit});
  for (const std::int64_t bytes : code_bytes) {
    unit.name = fmt::format("straight_{}", bytes);
    unit.language = SourceLanguage::ptx;
    unit.text = straight_line_ptx(bytes / k_instruction_bytes, arch);
    unit.kernel = "straight";
    programs.push_back({fmt::format("straight {} bytes", bytes), unit});
  }
  return programs;
}

}  // namespace spjit::bench

// What NVIDIA's compiler makes of small kernels, executed through the emulated driver and compared
// with the same arithmetic on the host, bit for bit.

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "emulated_driver/cuda_abi.hpp"

namespace spjit::emulated {
namespace {

constexpr const char* k_source = R"(
extern "C" __global__ void saxpy(float* __restrict__ y, const float* __restrict__ x, float a,
                                 int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
extern "C" __global__ void __launch_bounds__(128) row_times_columns(
    float* __restrict__ c, const float* __restrict__ b, float scale, int n) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= n) return;
  float sum = 0.0f;
#define TERM(k) sum = __fmaf_rn(0x1.8p-3f + k, __ldg(b + k * n + j), sum);
  TERM(0) TERM(2) TERM(3) TERM(5) TERM(7)
  c[j] = sum * scale;
}
extern "C" __global__ void sum_blocks(float* __restrict__ sums, const float* __restrict__ x,
                                      float start, int n) {
  __shared__ float s[128];
  int t = threadIdx.x;
  int i = blockIdx.x * 128 + t;
  s[t] = i < n ? x[i] : start;
  __syncthreads();
  for (int d = 64; d > 0; d >>= 1) {
    if (t < d) s[t] += s[t + d];
    __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = s[0];
}
extern "C" __global__ void switch_tiles(float* __restrict__ c, const float* __restrict__ b,
                                        float scale, int n) {
  int t = threadIdx.x;
  float sum = 0.0f;
  switch (blockIdx.x) {
#define TILE(i) case i: sum = __fmaf_rn(b[t * 3 + i], i * 0.25f, b[i]); \
  sum = __fmaf_rn(b[i * 7], sum, scale); break;
    TILE(0) TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6) TILE(7) TILE(8) TILE(9) TILE(10)
    TILE(11) TILE(12) TILE(13) TILE(14) TILE(15)
    default: return;
  }
  c[blockIdx.x * n + t] = sum;
}
__device__ __noinline__ float quotient(float a, const float* p, int k) { return a / p[k]; }
extern "C" __global__ void call_and_divide(float* __restrict__ y, const float* __restrict__ x,
                                           float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float l[4];
  for (int k = 0; k < 4; k++) l[(k + n) & 3] = x[(i + k) % n];
  y[i] = quotient(a, x, i) + sqrtf(l[i & 3]) + (float)(i % 7) + fmaxf(x[i], a);
}
)";

std::string compile(const std::string& nvcc, const std::string& options) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  const std::string stem =
      (folder / fmt::format("spjit_nvcc_{}_{}", getpid(), std::hash<std::string>()(options)))
          .string();
  std::ofstream(stem + ".cu") << k_source;
  const std::string command =
      fmt::format("{} -ptx {} {}.cu -o {}.ptx 2>&1", nvcc, options, stem, stem);
  const int status = std::system(command.c_str());
  std::stringstream text;
  text << std::ifstream(stem + ".ptx").rdbuf();
  std::filesystem::remove(stem + ".cu");
  std::filesystem::remove(stem + ".ptx");
  return status == 0 ? text.str() : std::string();
}

std::string find_nvcc() {
  for (const char* candidate : {"nvcc", "/usr/local/cuda/bin/nvcc"}) {
    if (std::system(fmt::format("{} --version >/dev/null 2>&1", candidate).c_str()) == 0) {
      return candidate;
    }
  }
  return {};
}

struct Launch {
  const char* kernel;
  unsigned blocks;
  unsigned threads;
  float scalar;
  int n;
};

class NvccKernels : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string nvcc = find_nvcc();
    if (nvcc.empty()) {
      GTEST_SKIP() << "nvcc is neither in PATH nor in /usr/local/cuda/bin";
    }
    library_ = dlopen(SPJIT_EMULATED_CUDA, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
    ptx_ = compile(nvcc, GetParam());
    ASSERT_FALSE(ptx_.empty()) << "nvcc " << GetParam();
    void* context = nullptr;
    ASSERT_EQ(call("cuInit", 0U), 0);
    ASSERT_EQ(call("cuDevicePrimaryCtxRetain", &context, 0), 0);
    ASSERT_EQ(call("cuCtxSetCurrent", context), 0);
    ASSERT_EQ(call("cuModuleLoadData", &module_, ptx_.c_str()), 0) << message();
  }

  template <typename... Arguments>
  int call(const char* name, Arguments... arguments) const {
    using Entry = int (*)(Arguments...);
    auto* entry = reinterpret_cast<Entry>(dlsym(library_, name));
    return entry == nullptr ? -1 : entry(arguments...);
  }

  [[nodiscard]] std::string message() const {
    using Entry = const char* (*)();
    return reinterpret_cast<Entry>(dlsym(library_, "spjit_emulated_message"))();
  }

  [[nodiscard]] DevicePointer upload(const std::vector<float>& values) const {
    DevicePointer address = 0;
    const std::size_t bytes = values.size() * sizeof(float);
    EXPECT_EQ(call("cuMemAlloc_v2", &address, bytes), 0);
    EXPECT_EQ(call("cuMemcpyHtoD_v2", address, static_cast<const void*>(values.data()), bytes), 0);
    return address;
  }

  // All kernels take (output, input, scalar, n).
  [[nodiscard]] std::vector<float> run(const Launch& launch, std::vector<float> out,
                                       const std::vector<float>& in) const {
    DevicePointer out_address = upload(out);
    DevicePointer in_address = upload(in);
    float scalar = launch.scalar;
    int n = launch.n;
    std::array<void*, 4> parameters = {&out_address, &in_address, &scalar, &n};
    void* kernel = nullptr;
    EXPECT_EQ(call("cuModuleGetFunction", &kernel, module_, launch.kernel), 0);
    EXPECT_EQ(call("cuLaunchKernel", kernel, launch.blocks, 1U, 1U, launch.threads, 1U, 1U, 0U,
                   static_cast<void*>(nullptr), parameters.data(), static_cast<void**>(nullptr)),
              0);
    EXPECT_EQ(call("cuStreamSynchronize", static_cast<void*>(nullptr)), 0) << message();
    EXPECT_EQ(call("cuMemcpyDtoH_v2", static_cast<void*>(out.data()), out_address,
                   out.size() * sizeof(float)),
              0);
    return out;
  }

  [[nodiscard]] const std::string& ptx() const { return ptx_; }

 private:
  void* library_ = nullptr;
  void* module_ = nullptr;
  std::string ptx_;
};

std::vector<float> numbers(std::size_t count, float step) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = 1.0F + step * static_cast<float>(i % 97);
  }
  return values;
}

std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> made;
  for (const float value : values) {
    made.push_back(std::bit_cast<std::uint32_t>(value));
  }
  return made;
}

TEST_P(NvccKernels, SaxpyAgreesBitForBit) {
  const std::vector<float> x = numbers(1000, 0.3F);
  std::vector<float> expected = numbers(1000, 0.7F);

  const std::vector<float> y = run({"saxpy", 4, 256, 1.7F, 1000}, expected, x);

  for (std::size_t i = 0; i < x.size(); ++i) {
    expected[i] = std::fma(1.7F, x[i], expected[i]);
  }
  EXPECT_EQ(bits(y), bits(expected));
}

TEST_P(NvccKernels, UnrolledRowTimesColumnsAgreesBitForBit) {
  constexpr int n = 200;
  const std::vector<float> b = numbers(std::size_t{8} * n, 0.013F);

  const std::vector<float> c =
      run({"row_times_columns", 2, 128, 0.3F, n}, std::vector<float>(n), b);

  std::vector<float> expected(n);
  for (std::size_t j = 0; j < n; ++j) {
    float sum = 0.0F;
    for (const int k : {0, 2, 3, 5, 7}) {
      sum =
          std::fma(0x1.8p-3F + static_cast<float>(k), b[static_cast<std::size_t>(k) * n + j], sum);
    }
    expected[j] = sum * 0.3F;
  }
  EXPECT_EQ(bits(c), bits(expected));
}

TEST_P(NvccKernels, SharedMemoryReductionAgreesBitForBit) {
  const std::vector<float> x = numbers(300, 0.1F);

  const std::vector<float> sums = run({"sum_blocks", 3, 128, 0.5F, 300}, std::vector<float>(3), x);

  std::vector<float> padded = x;
  padded.resize(384, 0.5F);
  for (std::size_t block = 0; block < 3; ++block) {
    float* s = padded.data() + 128 * block;
    for (std::size_t d = 64; d > 0; d /= 2) {
      for (std::size_t t = 0; t < d; ++t) {
        s[t] += s[t + d];
      }
    }
  }
  EXPECT_EQ(bits(sums), bits({padded[0], padded[128], padded[256]}));
}

TEST_P(NvccKernels, SwitchOverBlocksAgreesBitForBit) {
  const std::vector<float> b = numbers(200, 0.21F);

  const std::vector<float> c =
      run({"switch_tiles", 17, 32, 0.9F, 32}, std::vector<float>(std::size_t{17} * 32), b);

  std::vector<float> expected(std::size_t{17} * 32);
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t t = 0; t < 32; ++t) {
      const float sum = std::fma(b[t * 3 + i], static_cast<float>(i) * 0.25F, b[i]);
      expected[i * 32 + t] = std::fma(b[i * 7], sum, 0.9F);
    }
  }
  EXPECT_EQ(bits(c), bits(expected));
  const bool wants_table = std::string(GetParam()).find("jump-table") != std::string::npos;
  EXPECT_EQ(ptx().find("brx.idx") != std::string::npos, wants_table);
}

TEST_P(NvccKernels, CallsDivisionAndLocalArraysAgreeBitForBit) {
  constexpr std::size_t n = 101;
  const std::vector<float> x = numbers(n, 0.17F);

  const std::vector<float> y =
      run({"call_and_divide", 2, 64, 2.5F, static_cast<int>(n)}, std::vector<float>(n), x);

  std::vector<float> expected(n);
  for (std::size_t i = 0; i < n; ++i) {
    std::array<float, 4> l{};
    for (std::size_t k = 0; k < 4; ++k) {
      l[(k + n) & 3U] = x[(i + k) % n];
    }
    const float root = 2.5F / x[i] + std::sqrt(l[i & 3U]);
    expected[i] = root + static_cast<float>(i % 7) + std::fmax(x[i], 2.5F);
  }
  EXPECT_EQ(bits(y), bits(expected));
}

INSTANTIATE_TEST_SUITE_P(Targets, NvccKernels,
                         testing::Values("-arch=sm_75", "-arch=sm_90",
                                         "-arch=sm_90 --jump-table-density=0"));

}  // namespace
}  // namespace spjit::emulated

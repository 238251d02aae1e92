// Proxies compiled to cubins. Needs NVIDIA's compiler libraries, but no GPU.

#include <gtest/gtest.h>

#include <span>

#include "compiler_libraries.hpp"
#include "kernels/cuda/unrolled/cuda_proxy.hpp"
#include "runtime/cuda/cubin_info.hpp"
#include "tests/support/cuda/cuda_proxy_cases.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

class CudaProxyBuild : public ::testing::Test {
 protected:
  void SetUp() override {
    SPJIT_SKIP_WITHOUT_TOOLCHAIN((test::k_both));
    toolchain_ = test::toolchain();
    given_ = proxy_case(random_matrix(1200, 200, 0.8), 16, 512, {64, 128, 512});
    made_ = make_cuda_proxy(given_.plan, given_.candidates, given_.limits);
  }

  CudaToolchain toolchain_;
  ProxyCase given_;
  CudaProxy made_;
};

TEST_F(CudaProxyBuild, MakesACubinWithinTheCapFromBothTexts) {
  for (const CudaSource source : {CudaSource::cuda, CudaSource::ptx}) {
    SCOPED_TRACE(to_string(source));

    const CompiledCudaProxy compiled =
        compile_cuda_proxy(made_, source, toolchain_, {.arch = 90, .threads = 1});

    ASSERT_EQ(compiled.failure, "");
    const CubinInfo info = read_cubin_info(std::as_bytes(std::span(compiled.cubin)));
    EXPECT_EQ(info.arch, 90);
    EXPECT_EQ(info.find_kernel(k_cuda_kernel_name)->max_threads, 512);
    EXPECT_LE(compiled.registers, made_.register_cap);
    EXPECT_EQ(compiled.spilled_bytes, 0);
    EXPECT_GT(compiled.build_ms, 0);
    for (const CudaCandidate& member : given_.candidates) {
      EXPECT_EQ(launch_of(member, compiled.registers, given_.limits).note, "");
    }
  }
}

// nvJitLink 13.0 crashes on a table of branches that is as long.
TEST_F(CudaProxyBuild, TakesMoreBlocksThanATableOfBranchesHolds) {
  made_.spec.function_of_tile.resize(20'000, 1);
  for (const CudaSource source : {CudaSource::cuda, CudaSource::ptx}) {
    EXPECT_EQ(compile_cuda_proxy(made_, source, toolchain_, {.arch = 90, .threads = 1}).failure,
              "");
  }
}

TEST_F(CudaProxyBuild, OfAnArchitectureThatThereIsNotIsAFailure) {
  for (const CudaSource source : {CudaSource::cuda, CudaSource::ptx}) {
    const CompiledCudaProxy compiled =
        compile_cuda_proxy(made_, source, toolchain_, {.arch = 33, .threads = 1});

    EXPECT_NE(compiled.failure.find("sm_33"), std::string::npos) << compiled.failure;
    EXPECT_EQ(compiled.cubin, "");
  }
}

TEST_F(CudaProxyBuild, ThatIsGivenUpIsAFailure) {
  CudaBuildOptions options{.arch = 90, .threads = 1};
  options.cancel.deadline = std::chrono::steady_clock::now();

  const CompiledCudaProxy compiled =
      compile_cuda_proxy(made_, CudaSource::ptx, toolchain_, options);

  EXPECT_NE(compiled.failure.find("was given up"), std::string::npos) << compiled.failure;
}

}  // namespace

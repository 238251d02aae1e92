// What a search on a GPU is done with: NVIDIA's compilers, and here the emulated driver, which
// executes their cubins.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/unrolled/cuda_builder.hpp"
#include "kernels/cuda/unrolled/cuda_tunable.hpp"
#include "plan/kernel_plan.hpp"
#include "reorder/row_grouping.hpp"
#include "runtime/cuda/cubin_info.hpp"
#include "spjit/error.hpp"
#include "tests/support/cuda/cuda_search_testing.hpp"
#include "tests/support/long_tests.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

/// Neither a cubin nor PTX.
constexpr char k_no_code[] = "no code";

class LocalCudaToolsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    given_.options.resources.compile_threads = 2;
    ::setenv("SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA, 1);
    try {
      static_cast<void>(load_cuda_toolchain({.arch = 90, .nvrtc = true, .nvjitlink = true},
                                            found_cuda_libraries()));
    } catch (const NotSupported& error) {
      GTEST_SKIP() << error.what();
    }
  }
  void TearDown() override { ::unsetenv("SPJIT_CUDA_DRIVER"); }

  [[nodiscard]] CudaProxy proxy() {
    const ProxyCase of = proxy_case(*given_.problem.a, 8, given_.problem.n.value, {32, 128, 256});
    return make_cuda_proxy(of.plan, of.candidates, of.limits);
  }

  MadeUpSearch given_;
};

TEST_F(LocalCudaToolsTest, CompileProxiesFromTheTextThatIsAskedFor) {
  for (const CudaSource source : {CudaSource::ptx, CudaSource::cuda}) {
    given_.options.policy.values["proxy_source"] = to_string(source);
    const CudaSearchInput input = given_.input();
    const CudaSearchTools tools = local_cuda_tools(input, 0);

    const CompiledCudaProxy compiled = tools.compile_proxy(proxy(), {});

    ASSERT_EQ(compiled.failure, "") << to_string(source);
    EXPECT_EQ(tools.compile_threads, 2);
    const CubinInfo info = read_cubin_info(std::as_bytes(std::span(compiled.cubin)));
    EXPECT_EQ(info.arch, 90);
    EXPECT_EQ(info.find_kernel(k_cuda_kernel_name)->max_threads, 256);
  }
}

TEST_F(LocalCudaToolsTest, CompileTheKernelThatACompilationWouldMake) {
  given_.options.keep_source = true;
  const CudaSearchInput input = given_.input();
  const CudaSearchTools tools = local_cuda_tools(input, 0);
  const CudaCandidate& candidate = given_.ranked[1];

  const CudaKernelImage image = tools.compile_kernel(candidate, {});

  const CsrMatrix& a = *given_.problem.a;
  const KernelPlan plan =
      build_plan(a, group_rows(a, candidate.tile.m1, candidate.tile.reorder), a.cols);
  const BuiltCuda compiled = build_cuda_kernel(plan, candidate, given_.options, given_.limits);
  EXPECT_EQ(image.blocks_x, compiled.program.blocks_x);
  EXPECT_TRUE(image.cubin == compiled.artifact.cubin);  // too long to be printed
  ASSERT_NE(image.built, nullptr);
  EXPECT_TRUE(image.built->artifact.cubin == compiled.artifact.cubin);
  EXPECT_NE(compiled.artifact.ptx, "");
  EXPECT_EQ(image.built->artifact.ptx, compiled.artifact.ptx);
  EXPECT_EQ(image.built->program, compiled.program);
}

TEST_F(LocalCudaToolsTest, GiveUpWhatIsCancelled) {
  const CudaSearchInput input = given_.input();
  const CudaSearchTools tools = local_cuda_tools(input, 0);
  Cancellation past;
  past.deadline = std::chrono::steady_clock::now();

  EXPECT_NE(tools.compile_proxy(proxy(), past).failure, "");
  EXPECT_THROW(static_cast<void>(tools.compile_kernel(given_.ranked[1], past)), DeadlineExceeded);
}

TEST_F(LocalCudaToolsTest, AreNoneWithoutLibrariesOrForAGpuThatIsNotThere) {
  const CudaSearchInput input = given_.input();
  EXPECT_THROW(static_cast<void>(local_cuda_tools(input, 7)), InvalidArgument);

  const TemporaryDirectory nothing;
  given_.options.resources.toolkit_paths = {nothing.path()};
  EXPECT_THROW(static_cast<void>(local_cuda_tools(given_.input(), 0)), NotSupported);
}

TEST_F(LocalCudaToolsTest, ASearchTimesCubins) {
  for (const SearchMode mode : in_turn<SearchMode>({SearchMode::proxy, SearchMode::exhaustive})) {
    given_.options.policy.search = mode;
    const CudaSearchInput input = given_.input();

    const SearchTrace trace = search_cuda(input, given_.ranked, local_cuda_tools(input, 0), {},
                                          mode == SearchMode::proxy ? 2 : 0)
                                  .trace;

    EXPECT_TRUE(trace.timed);
    std::size_t in_full = 0;
    for (const SearchTraceEntry& entry : trace.entries) {
      const auto& result = mode == SearchMode::proxy ? entry.proxy : entry.full;
      ASSERT_TRUE(result);
      EXPECT_NE(result->outcome, TuningOutcome::failed) << result->failure;
      EXPECT_GT(result->timing.median_us, 0);
      if (entry.full) ++in_full;
    }
    EXPECT_GE(in_full, mode == SearchMode::proxy ? 2 : given_.ranked.size());
  }
}

TEST_F(LocalCudaToolsTest, ASearchRecordsWhyADriverTakesNoneOfTheCubins) {
  for (const SearchMode mode : {SearchMode::proxy, SearchMode::exhaustive}) {
    given_.options.policy.search = mode;
    const CudaSearchInput input = given_.input();
    CudaSearchTools tools = local_cuda_tools(input, 0);
    tools.time = [time = tools.time](std::span<const CudaTuningCandidate> candidates,
                                     const TuningOptions& options) {
      std::vector<CudaTuningCandidate> damaged(candidates.begin(), candidates.end());
      for (CudaTuningCandidate& candidate : damaged) {
        candidate.image = std::as_bytes(std::span(k_no_code));
      }
      return time(damaged, options);
    };

    const SearchTrace trace = search_cuda_tile(input, given_.ranked, tools);

    EXPECT_FALSE(trace.timed);
    EXPECT_EQ(trace.chosen, 0U);
    for (const SearchTraceEntry& entry : trace.entries) {
      const auto& result = mode == SearchMode::proxy ? entry.proxy : entry.full;
      ASSERT_TRUE(result);
      EXPECT_EQ(result->outcome, TuningOutcome::failed);
      EXPECT_THAT(result->failure, testing::HasSubstr("CUDA_ERROR_INVALID_PTX"));
    }
  }
}

}  // namespace

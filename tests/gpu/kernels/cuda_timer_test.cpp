// Proxies and the full kernel they stand for, launched and timed on a GPU.

#include "kernels/cuda/unrolled/cuda_timer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/cuda/unrolled/cuda_proxy.hpp"
#include "tests/gpu/kernels/gpu_testing.hpp"
#include "tests/support/cuda/cuda_proxy_cases.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

class CudaTimerOnGpu : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    given_ =
        proxy_case(random_matrix(1200, 200, 0.9), 16, 100, {32, 64, 256}, {.limits = gpu_.limits});
    made_ = make_cuda_proxy(given_.plan, given_.candidates, given_.limits);
    const int arch = static_cast<int>(gpu_.limits.arch);
    compiled_ =
        compile_cuda_proxy(made_, CudaSource::ptx,
                           load_cuda_toolchain({.arch = arch, .nvrtc = false, .nvjitlink = true},
                                               found_cuda_libraries()),
                           {.arch = arch});
    ASSERT_EQ(compiled_.failure, "");
  }

  ProxyCase given_;
  CudaProxy made_;
  CompiledCudaProxy compiled_;
};

TEST_F(CudaTimerOnGpu, RunsAProxyInPlaceOfEveryCandidate) {
  CudaTimer timer(gpu_.ordinal, timed_problem(1200, 200, 100, 100, 100));
  const CudaFunction function = timer.load(std::as_bytes(std::span(compiled_.cubin)));
  for (const CudaCandidate& member : given_.candidates) {
    SCOPED_TRACE(to_string(member.tile));
    const CudaProxyLaunch launch = launch_of(member, compiled_.registers, gpu_.limits);

    const double time_us = timer.time_us(function, launch, 3);

    EXPECT_EQ(launch.note, "");
    EXPECT_TRUE(std::isfinite(time_us));
    EXPECT_GT(time_us, 0);
    const std::int64_t held =
        function.active_blocks_per_sm(static_cast<int>(launch.threads * launch.tiles_a_block),
                                      static_cast<std::size_t>(launch.dynamic_shared_bytes));
    const std::int64_t for_an_sm = (member.blocks + gpu_.limits.sms - 1) / gpu_.limits.sms;
    EXPECT_EQ(std::min(held, for_an_sm), active_blocks_of(member, gpu_.limits));
  }
}

}  // namespace

// A launch for the clock has the problem's sizes where the cubin has its parameters.

#include "kernels/cuda/build/cuda_clock.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "spjit/error.hpp"
#include "tests/support/cuda/sass_code.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit {
namespace {

using namespace testing_support;

Problem some_problem() {
  Problem problem;
  problem.a = random_matrix(48, 32, 0.5);
  problem.n = 20;
  return problem;
}

std::vector<std::byte> some_cubin() {
  TestKernel kernel;
  kernel.code = {{.encoding = "000fea0003800000000000000000794d"}};
  return cubin_of({kernel});
}

TEST(ClockLaunch, HasWhatTheCubinAsksForAndTheSizeOfTheOperands) {
  const std::vector<std::byte> cubin = some_cubin();
  const ClockShape shape{.grid = {3, 2, 1}, .block = {64, 2, 1}, .dynamic_shared_bytes = 512};

  const ClockLaunch launch = clock_launch(some_problem(), cubin, "k", shape);

  EXPECT_EQ(launch.grid, shape.grid);
  EXPECT_EQ(launch.block, shape.block);
  EXPECT_EQ(launch.dynamic_shared_bytes, 512);
  EXPECT_EQ(launch.touched_bytes, (32 * 20 + 48 * 20) * 4);
  ASSERT_EQ(launch.parameters.size(), 8U);
  std::uint64_t b = 0;
  std::memcpy(&b, launch.parameters.data(), sizeof b);
  EXPECT_NE(b, 0U);
}

TEST(ClockLaunch, IsRefusedForAKernelThatIsNotThere) {
  EXPECT_THROW(static_cast<void>(clock_launch(some_problem(), some_cubin(), "other", {})), Error);
}

}  // namespace
}  // namespace spjit

// Kernels whose launch says the threads a block, and proxies, run on the emulated driver: C has the
// bits of the evaluator. Needs neither a GPU nor NVIDIA's libraries.

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/unrolled/cuda_timer.hpp"
#include "kernels/cuda/unrolled/cuda_units.hpp"
#include "spjit/error.hpp"
#include "spjit/matrix_io.hpp"
#include "tests/support/cuda/cuda_cases.hpp"
#include "tests/support/cuda/cuda_proxy_cases.hpp"
#include "tests/support/files/real_matrices.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

/// No multiple of any of the N1 it is run with.
constexpr std::int64_t k_columns = 100;

CudaCase runtime_threads_case(const CsrMatrix& matrix, bool runtime_sizes) {
  CudaKernelSpec spec = cuda_spec(16, k_columns);
  spec.ldb = k_columns + 1;
  spec.ldc = k_columns + 3;
  spec.tile.n1 = 256;
  spec.tile.runtime_sizes = runtime_sizes;
  spec.runtime_threads = true;
  return make_cuda_case(matrix, spec, ReorderAlgorithm::similarity);
}

/// A proxy as a case: its plan with the B of the kernel.
CudaCase case_of(const CudaProxy& made) {
  return {made.proxy.plan, made.spec,
          dense_values(extent_of(made.proxy.plan.cols, made.spec.n, made.spec.ldb))};
}

CsrMatrix sorted(const std::filesystem::path& file) {
  CsrMatrix matrix = load_matrix(file);
  matrix.sort_columns();
  return matrix;
}

TEST(RuntimeThreads, GiveTheBitsOfTheEvaluatorWithEveryN1) {
  for (const bool runtime_sizes : {false, true}) {
    for (const CsrMatrix& matrix : {random_matrix(150, 90, 0.8), with_empty_rows(200)}) {
      const CudaCase item = runtime_threads_case(matrix, runtime_sizes);
      const std::string ptx = ptx_of(item);
      for (const LaunchedBlock block :
           {LaunchedBlock{1, 1}, {32, 1}, {96, 1}, {256, 1}, {32, 2}, {32, 4}, {64, 4}, {96, 2}}) {
        EXPECT_TRUE(same_bits(run_ptx(ptx, item, block), expected_c(item)))
            << block.n1 << " " << block.tiles;
      }
    }
  }
}

TEST(RuntimeThreads, AreAtMostN1) {
  const CudaCase item = runtime_threads_case(random_matrix(20, 30, 0.8), false);

  EXPECT_THROW(static_cast<void>(run_ptx(ptx_of(item), item, {288})), DeviceError);
  EXPECT_THROW(static_cast<void>(run_ptx(ptx_of(item), item, {160, 2})), DeviceError);
}

TEST(RuntimeThreads, GiveTheBitsOfTheEvaluatorOnData) {
  constexpr std::int64_t k_most_nonzeros = 8'000;  // 100 columns with each of three N1
  int compared = 0;
  for (const auto& file : matrix_files("dlmc")) {
    const CsrMatrix matrix = sorted(file);
    if (matrix.nnz() == 0 || matrix.nnz() > k_most_nonzeros) continue;
    const CudaCase item = runtime_threads_case(matrix, compared++ % 2 == 0);
    const std::string ptx = ptx_of(item);
    for (const LaunchedBlock block : {LaunchedBlock{32, 4}, {96, 2}, {256, 1}}) {
      EXPECT_TRUE(same_bits(run_ptx(ptx, item, block), expected_c(item))) << file << block.n1;
    }
  }
  if (compared == 0) GTEST_SKIP() << "no small matrices in " << (data_directory() / "dlmc");
}

TEST(CudaProxyRun, WritesWhatItsPlanSaysWithEveryN1) {
  for (const bool runtime_sizes : {false, true}) {
    const ProxyCase given =
        proxy_case(random_matrix(600, 90, 0.85), 8, k_columns, {32, 96, 256},
                   {.runtime_sizes = runtime_sizes, .ldb = k_columns + 2, .ldc = k_columns + 5});
    const CudaProxy made = make_cuda_proxy(given.plan, given.candidates, given.limits);
    ASSERT_LT(made.proxy.clusters.size(), made.spec.function_of_tile.size());
    const CudaCase item = case_of(made);
    const std::string ptx = join_texts(emit_cuda_proxy(made, CudaSource::ptx, 90));
    for (const LaunchedBlock block : {LaunchedBlock{32, 4}, {96, 2}, {256, 1}}) {
      EXPECT_TRUE(same_bits(run_ptx(ptx, item, block), expected_c(item))) << block.n1;
    }
  }
}

TEST(CudaProxyRun, OfSeveralUnitsRunsToo) {
  ProxyCase given = proxy_case(random_matrix(400, 90, 0.8), 8, k_columns, {32, 64});
  for (CudaCandidate& member : given.candidates) member.tile.unit_nonzeros = 100;
  const CudaProxy made = make_cuda_proxy(given.plan, given.candidates, given.limits);

  const std::vector<SourceUnit> units = emit_cuda_proxy(made, CudaSource::ptx, 90);

  ASSERT_GT(units.size(), 2U);
  EXPECT_TRUE(same_bits(run_ptx(join_texts(units), case_of(made)), expected_c(case_of(made))));
}

TEST(CudaProxyRun, WithMoreBlocksThanATableOfBranchesHoldsRunsEveryFunction) {
  CudaKernelSpec spec = cuda_spec(4, 3);
  spec.function_of_tile.assign(33000, 0);
  spec.function_of_tile[16379] = 1;
  spec.function_of_tile[16380] = 2;
  spec.function_of_tile[32999] = 3;
  const CudaCase item =
      make_cuda_case(random_matrix(16, 12, 0.5), spec, ReorderAlgorithm::balanced);
  ASSERT_EQ(count_functions(item.plan), 4);

  EXPECT_TRUE(same_bits(run_ptx(ptx_of(item), item), expected_c(item)));
}

TEST(CudaProxyOnData, IsNoLargerThanTheKernel) {
  int made_of = 0;
  for (const auto& file : matrix_files("dlmc")) {
    const CsrMatrix matrix = sorted(file);
    if (matrix.nnz() == 0) continue;
    for (const std::int64_t m1 : {8, 32}) {
      const ProxyCase given = proxy_case(matrix, m1, 256, {32, 128, 256});
      SCOPED_TRACE(testing::Message() << file << ", m1 " << m1);

      const CudaProxy made = make_cuda_proxy(given.plan, given.candidates, given.limits);

      std::int64_t most = 0;
      for (const CudaCandidate& member : given.candidates) {
        most = std::max(most, active_blocks_of(member, given.limits));
      }
      EXPECT_TRUE(is_no_larger(made.proxy.plan, given.plan));
      EXPECT_LE(count_functions(made.proxy.plan), 3 * most);
      ++made_of;
    }
  }
  if (made_of == 0) GTEST_SKIP() << "no " << (data_directory() / "dlmc");
}

class CudaTimerOnEmulatedDriver : public ::testing::Test {
 protected:
  [[nodiscard]] CudaTimer timer() const { return {context_, timed_problem(600, 90, k_columns)}; }
  [[nodiscard]] CudaFunction load(const CudaTimer& timer) const {
    const std::string ptx = join_texts(emit_cuda_proxy(proxy_, CudaSource::ptx, 90));
    return timer.load(std::as_bytes(std::span(ptx)));
  }

  CudaContext context_ = emulated_context();
  ProxyCase given_ = proxy_case(random_matrix(600, 90, 0.85), 8, k_columns, {32, 96, 256});
  CudaProxy proxy_ = make_cuda_proxy(given_.plan, given_.candidates, given_.limits);
};

TEST_F(CudaTimerOnEmulatedDriver, TimesEveryLaunch) {
  CudaTimer timer = this->timer();
  const CudaFunction function = load(timer);
  for (const CudaCandidate& member : given_.candidates) {
    const CudaProxyLaunch launch = launch_of(member, 32, given_.limits);

    const double time_us = timer.time_us(function, launch, 2);

    EXPECT_TRUE(std::isfinite(time_us));
    EXPECT_GT(time_us, 0);
  }
}

TEST_F(CudaTimerOnEmulatedDriver, AllowsMoreSharedMemoryThanThereIsByDefault) {
  CudaTimer timer = this->timer();
  const CudaFunction function = load(timer);
  CudaProxyLaunch launch = launch_of(given_.candidates.front(), 32, given_.limits);
  launch.dynamic_shared_bytes = 50 << 10;

  EXPECT_GT(timer.time_us(function, launch, 1), 0);
}

TEST_F(CudaTimerOnEmulatedDriver, LetsTheDriversErrorsThrough) {
  CudaTimer timer = this->timer();
  const CudaFunction function = load(timer);
  CudaProxyLaunch too_wide = launch_of(given_.candidates.front(), 32, given_.limits);
  too_wide.threads = 2048;

  EXPECT_THROW(static_cast<void>(timer.time_us(function, too_wide, 1)), DeviceError);
  EXPECT_THROW(static_cast<void>(timer.load(std::as_bytes(std::span("no code")))), DeviceError);
}

TEST_F(CudaTimerOnEmulatedDriver, RefusesShapesThatAreNone) {
  const auto refuses = [&](const Problem& problem) {
    EXPECT_THROW(CudaTimer(context_, problem), InvalidArgument);
  };
  CudaTimer timer = this->timer();

  refuses(timed_problem(0, 1, 1, 1, 1));
  refuses(timed_problem(1, -1, 1, 1, 1));
  refuses(timed_problem(1, 1, 0, 1, 1));
  refuses(timed_problem(1, 1, 2, 1, 2));
  refuses(timed_problem(1, 1, 2, 2, 1));
  EXPECT_THROW(static_cast<void>(timer.time_us(load(timer), {}, 0)), InvalidArgument);
}

}  // namespace

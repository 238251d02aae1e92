#include "tools/report/measure.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/cuda/cuda_artifacts.hpp"
#include "tests/support/cuda/cuda_cases.hpp"
#include "tests/support/scoped_variable.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using spjit::cli::Measurement;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::int64_t k_n = 20;

TEST(Measure, TimesAHostKernelBesideItsPeers) {
  const Problem problem = problem_of(random_matrix(30, 25, 0.7), k_n);
  const Kernel kernel = Compiler({}, uncached()).compile(problem);

  for (const bool hot : {true, false}) {
    const Measurement measured = cli::measure(kernel, problem, {1, hot});

    EXPECT_FALSE(cli::why_not_timed(kernel.info().target));
    EXPECT_GT(measured.kernel.median_us, 0);
    EXPECT_GE(measured.kernel.samples, 7);
    EXPECT_TRUE(measured.csr.timing);
    EXPECT_TRUE(cli::share_of_peak({kernel.info()}, measured.kernel, 100));
    EXPECT_TRUE(cli::describe(measured, kernel.info(), 100)["speedup_over_csr"].is_number());
  }
}

TEST(Measure, ComparesWhatItTimedWithFloat64) {
  const Problem problem = problem_of(random_matrix(30, 25, 0.7), k_n);
  const Kernel kernel = Compiler({}, uncached()).compile(problem);
  CsrMatrix other = *problem.a;
  other.values[3] += 1;

  const Measurement measured = cli::measure(
      kernel, problem, {.budget_ms = 1, .between_bytes = 0, .batch = 2, .check = true});

  ASSERT_TRUE(measured.check);
  EXPECT_EQ(measured.check->rows_checked, 30);
  EXPECT_EQ(measured.batch, 2);
  EXPECT_DOUBLE_EQ(cli::gflops({kernel.info(), 2}, measured.kernel),
                   2 * cli::gflops({kernel.info()}, measured.kernel));
  EXPECT_THAT(
      [&] { static_cast<void>(cli::measure(kernel, problem_of(other, k_n), {.check = true})); },
      ThrowsMessage<VerificationFailed>(HasSubstr("wrong result: C[")));
}

class MeasureOnGpu : public testing::Test {
 protected:
  [[nodiscard]] Kernel kernel() const {
    return Kernel::from_artifact(
        ptx_artifact(ptx_of(item_),
                     record_of(make_program(item_.plan, item_.spec, 90), item_.spec.tile).dump()));
  }

  CsrMatrix matrix_ = random_matrix(30, 25, 0.7);
  CudaCase item_ = make_cuda_case(matrix_, cuda_spec(4, k_n), ReorderAlgorithm::similarity);
};

TEST_F(MeasureOnGpu, TimesLaunchesAloneAndKnowsNoPeak) {
  const ScopedVariable driver("SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA);

  const Measurement measured = cli::measure(kernel(), problem_of(matrix_, k_n), {10'000});

  EXPECT_FALSE(cli::why_not_timed(kernel().info().target));
  EXPECT_GT(measured.kernel.samples, 0);
  EXPECT_FALSE(measured.csr.timing);
  EXPECT_THAT(measured.dense.skipped, HasSubstr("GPU"));
  EXPECT_FALSE(cli::share_of_peak({kernel().info()}, measured.kernel, 100));
  EXPECT_TRUE(cli::describe(measured, kernel().info(), 100)["speedup_over_csr"].is_null());
}

TEST_F(MeasureOnGpu, ComparesARunWithFloat64) {
  const ScopedVariable driver("SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA);
  CsrMatrix other = matrix_;
  other.values[3] += 1;
  const auto measure = [&](const CsrMatrix& matrix) {
    return cli::measure(kernel(), problem_of(matrix, k_n), {.budget_ms = 10'000, .check = true});
  };

  EXPECT_EQ(measure(matrix_).check->rows_checked, 30);
  EXPECT_THROW(static_cast<void>(measure(other)), VerificationFailed);
}

TEST_F(MeasureOnGpu, SaysThatTheBudgetWasTooShort) {
  const ScopedVariable driver("SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA);

  EXPECT_THAT([&] { static_cast<void>(cli::measure(kernel(), problem_of(matrix_, k_n), {0})); },
              ThrowsMessage<Error>(HasSubstr("0 ms were over before the first sample")));
}

TEST_F(MeasureOnGpu, SaysInOneLineWhyThereIsNoTime) {
  const ScopedVariable driver("SPJIT_CUDA_DRIVER", "/nowhere/libcuda.so.1");

  EXPECT_THAT(cli::why_not_timed(kernel().info().target).reason(),
              HasSubstr("/nowhere/libcuda.so.1"));
  EXPECT_THROW(static_cast<void>(cli::measure(kernel(), problem_of(matrix_, k_n), {1})),
               NotSupported);
}

TEST_F(MeasureOnGpu, SaysWhyAKernelCannotBeLoaded) {
  const ScopedVariable driver("SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA);
  const auto record = record_of(make_program(item_.plan, item_.spec, 90), item_.spec.tile);
  const Kernel broken = Kernel::from_artifact(ptx_artifact("no PTX at all", record.dump()));

  EXPECT_THROW(static_cast<void>(cli::measure(broken, problem_of(matrix_, k_n), {1})), Error);
}

}  // namespace

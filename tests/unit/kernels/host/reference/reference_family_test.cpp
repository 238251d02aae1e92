#include "kernels/host/reference/reference_family.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/host/loops/csr_kernel.hpp"
#include "kernels/host/object/csr_image.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/guarded_operands.hpp"

namespace {

using spjit::CsrMatrix;
using spjit::Extent;
using spjit::HostIsa;
using spjit::Kernel;
using spjit::Problem;
using spjit::testing_support::GuardedOperands;
using spjit::testing_support::GuardPlacement;
using spjit::testing_support::index;
using spjit::testing_support::isa_and_placement;
using spjit::testing_support::IsaAndPlacement;
using spjit::testing_support::k_placements;
using spjit::testing_support::kernel_of;
using spjit::testing_support::OperandShape;
using spjit::testing_support::options_of;
using spjit::testing_support::problem_of;
using spjit::testing_support::random_matrix;
using spjit::testing_support::reference_product;
using spjit::testing_support::same_bits;
using spjit::testing_support::small_matrix;
using spjit::testing_support::uncached;

/// Runs of kernels of the family, and of its image by the csr kernel.
class ReferenceKernel : public testing::TestWithParam<IsaAndPlacement> {
 protected:
  void SetUp() override {
    if (!spjit::Target(isa()).runs_here()) GTEST_SKIP() << "no " << to_string(isa()) << " here";
  }
  static HostIsa isa() { return std::get<HostIsa>(GetParam()); }
  static GuardPlacement placement() { return std::get<GuardPlacement>(GetParam()); }

  static Kernel compile(const CsrMatrix& matrix, const Extent& n) {
    Problem problem = problem_of(matrix, 1);
    problem.n = n;
    spjit::CompileOptions options = options_of(isa());
    options.policy.family = "reference";
    return spjit::Compiler(options, uncached()).compile(problem);
  }

  /// The family's kernel of a fixed n, for which a Compiler would take another family.
  static Kernel fixed(const CsrMatrix& matrix, std::int64_t n) {
    return kernel_of(spjit::make_csr_artifact(problem_of(matrix, n), "reference", isa()));
  }

  static void expect_csr(const Kernel& kernel, const CsrMatrix& matrix, const OperandShape& shape,
                         const std::vector<float>& b = {}) {
    const GuardedOperands operands(matrix, shape, placement(), b);
    const GuardedOperands csr(matrix, shape, placement(), b);

    kernel.run({.b = {operands.b(), {.ld = shape.ldb}},
                .c = {operands.c(), {.ld = shape.ldc}},
                .n = shape.n});
    spjit::run_csr(spjit::view_of(matrix), isa(),
                   {csr.b(), shape.ldb, csr.c(), shape.ldc, shape.n});

    EXPECT_TRUE(same_bits(operands.all_of_c(), csr.all_of_c())) << operands.describe();
    EXPECT_TRUE(operands.holds_product(matrix, isa())) << operands.describe();
  }
};

TEST_P(ReferenceKernel, OfARuntimeNComputesAnyN) {
  const CsrMatrix matrix = random_matrix(23, 40, 0.8);
  const Kernel kernel = compile(matrix, Extent::at_run_time(16));

  ASSERT_EQ(kernel.info().family, "reference");
  EXPECT_TRUE(kernel.info().runtime_n);
  EXPECT_EQ(kernel.n(), 16);
  for (const std::int64_t n : {1, 2, 7, 16, 17, 64, 131}) {
    expect_csr(kernel, matrix, {n, n, n});
    expect_csr(kernel, matrix, {n, n + 3, n + 5});
  }
}

TEST_P(ReferenceKernel, WithoutAnNTakesTheTypicalOne) {
  const CsrMatrix matrix = random_matrix(23, 40, 0.8);
  Problem problem = problem_of(matrix, 1);
  problem.n = Extent::at_run_time(9);
  problem.b.leading_dimension = 12;
  problem.c.leading_dimension = 10;
  spjit::CompileOptions options = options_of(isa());
  options.policy.family = "reference";
  const Kernel kernel = spjit::Compiler(options, uncached()).compile(problem);
  const GuardedOperands operands(matrix, {9, 12, 10}, placement());
  const GuardedOperands other(matrix, {7, 7, 7}, placement());

  kernel.run(operands.b(), operands.c());
  kernel.run({.b = other.b(), .c = other.c(), .n = 7});

  EXPECT_TRUE(operands.holds_product(matrix, isa()));
  EXPECT_TRUE(other.holds_product(matrix, isa()));  // of another n contiguous
}

TEST_P(ReferenceKernel, OfOneNTakesNoOther) {
  const CsrMatrix matrix = random_matrix(6, 5, 0.5);
  std::vector<float> memory(200);

  EXPECT_THROW(fixed(matrix, 8).run({.b = memory.data(), .c = memory.data() + 100, .n = 9}),
               spjit::InvalidArgument);
  EXPECT_THROW(compile(matrix, Extent::at_run_time(8))
                   .run({.b = memory.data(), .c = memory.data() + 100, .n = -1}),
               spjit::InvalidArgument);
}

TEST_P(ReferenceKernel, GivesTheBitsOfCsrAtEveryEdge) {
  const CsrMatrix no_entries{3, 4, {0, 0, 0, 0}, {}, {}};
  const CsrMatrix no_columns{2, 0, {0, 0, 0}, {}, {}};
  const CsrMatrix one{1, 1, {0, 1}, {0}, {-2.5F}};
  for (const CsrMatrix& matrix : {small_matrix(), no_entries, no_columns, one}) {
    for (const std::int64_t n : {1, 3, 16, 33}) {
      expect_csr(fixed(matrix, n), matrix, {n, n, n});
      expect_csr(fixed(matrix, n), matrix, {n, n + 1, n + 2});
    }
  }
}

TEST_P(ReferenceKernel, OfNoRowsWritesNothing) {
  const CsrMatrix no_rows{0, 5, {0}, {}, {}};
  const std::vector<float> b(15, 1.0F);

  EXPECT_NO_THROW(fixed(no_rows, 3).run(b.data(), nullptr));
}

TEST_P(ReferenceKernel, KeepsNegativeZerosNansAndInfinities) {
  constexpr float k_nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float k_infinity = std::numeric_limits<float>::infinity();
  const float denormal = std::numeric_limits<float>::denorm_min();
  const CsrMatrix matrix{
      6, 4, {0, 1, 2, 3, 5, 5, 6}, {0, 1, 2, 2, 3, 0}, {-denormal, 1, 0, -0.0F, 1, k_nan}};
  const std::vector<float> b = {0.25F, 3, k_nan, -0.0F, k_infinity, 1, -k_infinity, denormal};

  expect_csr(fixed(matrix, 2), matrix, {2, 2, 2}, b);
}

TEST_P(ReferenceKernel, UnderflowsToANegativeZero) {
  const CsrMatrix matrix{1, 1, {0, 1}, {0}, {-std::numeric_limits<float>::denorm_min()}};
  const float b = 0.25F;
  float c = 7;

  fixed(matrix, 1).run(&b, &c);

  EXPECT_EQ(c, 0.0F);
  // Fused, -0 is what is left of the sum; added to +0 after rounding it is +0.
  EXPECT_EQ(std::signbit(c), isa() != HostIsa::generic);
}

TEST_P(ReferenceKernel, TakesPanels) {
  const CsrMatrix matrix = random_matrix(20, 30, 0.7);
  for (const std::int64_t n : {1, 16, 37}) {
    const Kernel kernel = fixed(matrix, n);
    const std::vector<float> b = spjit::testing_support::dense_values(30 * n);
    std::vector<float> b_panels(index(kernel.panel_elements(30)));
    std::vector<float> c_panels(index(kernel.panel_elements(20)), -7.0F);
    std::vector<float> c(index(20 * n));

    kernel.to_panels(b.data(), n, 30, b_panels.data());
    kernel.run_panels(b_panels.data(), c_panels.data());
    kernel.from_panels(c_panels.data(), 20, c.data(), n);

    EXPECT_TRUE(same_bits(c, reference_product(matrix, isa(), b.data(), n, n))) << n;
  }
}

TEST_P(ReferenceKernel, RunsOnSeveralThreadsAlike) {
  const CsrMatrix matrix = random_matrix(50, 40, 0.8);
  spjit::CompileOptions options = options_of(isa());
  options.resources.threads = 3;
  options.policy.family = "reference";
  Problem problem = problem_of(matrix, 1);
  problem.n = Extent::at_run_time(8);

  const Kernel kernel = spjit::Compiler(options, uncached()).compile(problem);

  EXPECT_EQ(kernel.info().threads, 3);
  expect_csr(kernel, matrix, {21, 22, 23});
}

INSTANTIATE_TEST_SUITE_P(AllIsas, ReferenceKernel,
                         testing::Combine(testing::Values(HostIsa::avx512, HostIsa::avx2,
                                                          HostIsa::generic),
                                          testing::ValuesIn(k_placements)),
                         isa_and_placement);

}  // namespace

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "plan/kernel_plan.hpp"
#include "reorder/row_grouping.hpp"
#include "spjit/generate.hpp"
#include "spjit/matrix.hpp"
#include "tests/support/evaluate.hpp"
#include "tests/support/float64_check.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::Arithmetic;
using spjit::CsrMatrix;
using spjit::KernelPlan;
using spjit::Product;
using spjit::testing_support::dense_values;

// 5 x 5: row 2 empty, row 4 dense.
CsrMatrix five_by_five() {
  const std::vector<float> dense = {1, 0, 0, 2, 0,  //
                                    0, 3, 0, 0, 0,  //
                                    0, 0, 0, 0, 0,  //
                                    0, 0, 4, 0, 5,  //
                                    1, 1, 1, 1, 1};
  return spjit::csr_from_dense(dense.data(), 5, 5);
}

KernelPlan plan_of(const CsrMatrix& matrix, std::int64_t m1, std::int64_t k_block) {
  return spjit::build_plan(
      matrix, spjit::group_rows(matrix, m1, spjit::ReorderAlgorithm::similarity), k_block);
}

TEST(Reference, MultipliesByHand) {
  const CsrMatrix matrix = five_by_five();
  const std::vector<float> b = {1, 10, 2, 20, 3, 30, 4, 40, 5, 50};
  std::vector<float> c(10, -1.0F);

  spjit::evaluate(plan_of(matrix, 2, 2), Arithmetic::fused, {b.data(), 2, c.data(), 2, 2});

  EXPECT_EQ(c, (std::vector<float>{9, 90, 6, 60, 0, 0, 37, 370, 15, 150}));
}

TEST(Reference, KeepsWithinTheLeadingDimensions) {
  const CsrMatrix matrix = five_by_five();
  const std::vector<float> b = {1, 7, 7, 2, 7, 7, 3, 7, 7, 4, 7, 7, 5, 7, 7};
  std::vector<float> c(10, -1.0F);

  spjit::evaluate(plan_of(matrix, 3, 5), Arithmetic::fused, {b.data(), 3, c.data(), 2, 1});

  EXPECT_EQ(c, (std::vector<float>{9, -1, 6, -1, 0, -1, 37, -1, 15, -1}));
}

TEST(Reference, FusedRoundsOnceAndSeparateTwice) {
  // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24: the last term is rounded off the product, so it survives the
  // cancellation with -(1 + 2^-11) only if product and sum are rounded once.
  const float value = 1.0F + 0x1p-12F;
  const std::vector<float> dense = {-(1.0F + 0x1p-11F), value};
  const CsrMatrix matrix = spjit::csr_from_dense(dense.data(), 1, 2);
  const std::vector<float> b = {1.0F, value};
  float fused = -1;
  float separate = -1;

  spjit::evaluate(plan_of(matrix, 1, 2), Arithmetic::fused, {b.data(), 1, &fused, 1, 1});
  spjit::evaluate(plan_of(matrix, 1, 2), Arithmetic::separate, {b.data(), 1, &separate, 1, 1});

  EXPECT_EQ(fused, 0x1p-24F);
  EXPECT_EQ(separate, 0.0F);
}

TEST(Reference, EveryPlanGivesTheSameBits) {
  spjit::GenerateOptions options;
  options.rows = 61;
  options.cols = 97;
  options.sparsity = 0.7;
  options.pattern = spjit::MatrixPattern::uneven_rows;
  const CsrMatrix matrix = spjit::generate_matrix(options);
  const std::vector<float> b = dense_values(std::int64_t{97} * 9, 2);
  std::vector<float> one_tile(std::size_t{61} * 9, -1.0F);
  std::vector<float> many_tiles(std::size_t{61} * 9, -2.0F);

  spjit::evaluate(plan_of(matrix, 61, 97), Arithmetic::fused, {b.data(), 9, one_tile.data(), 9, 9});
  spjit::evaluate(plan_of(matrix, 4, 10), Arithmetic::fused,
                  {b.data(), 9, many_tiles.data(), 9, 9});

  EXPECT_EQ(one_tile, many_tiles);
}

TEST(Reference, ArithmeticFollowsTheInstructionSet) {
  EXPECT_EQ(spjit::arithmetic_of(spjit::HostIsa::avx512), Arithmetic::fused);
  EXPECT_EQ(spjit::arithmetic_of(spjit::HostIsa::avx2), Arithmetic::fused);
  EXPECT_EQ(spjit::arithmetic_of(spjit::HostIsa::generic), Arithmetic::separate);
}

TEST(Float64, ValuesAndBoundsOfASmallProduct) {
  const CsrMatrix matrix = five_by_five();
  const std::vector<float> b = {1, -2, 3, 4, -5};

  const auto product = spjit::evaluate_float64(matrix, {b.data(), 1, nullptr, 0, 1});

  EXPECT_EQ(product.values, (std::vector<double>{9, -6, 0, -13, 1}));
  EXPECT_EQ(product.bounds[2], 0);
  EXPECT_EQ(product.bounds[4], spjit::rounding_bound(5, 15));
}

TEST(Float64, BoundIsHighamsGamma) {
  const double u = 0x1p-24;

  EXPECT_NEAR(spjit::rounding_bound(100, 3.0) / (3.0 * 100 * u / (1 - 100 * u)), 1.0, 1e-6);
  EXPECT_GT(spjit::rounding_bound(100, 3.0), 3.0 * 100 * u / (1 - 100 * u));
  EXPECT_TRUE(std::isinf(spjit::rounding_bound(std::int64_t{1} << 24, 1.0)));
}

TEST(Float64, RoundingStaysWithinTheBound) {
  spjit::GenerateOptions options;
  options.rows = 64;
  options.cols = 300;
  options.sparsity = 0.5;
  const CsrMatrix matrix = spjit::generate_matrix(options);
  const std::vector<float> b = dense_values(std::int64_t{300} * 17, 3);
  std::vector<float> c(std::size_t{64} * 17);
  for (const Arithmetic arithmetic : {Arithmetic::fused, Arithmetic::separate}) {
    const Product operands{b.data(), 17, c.data(), 17, 17};

    spjit::evaluate(plan_of(matrix, 8, 300), arithmetic, operands);
    const auto report = spjit::compare_with_float64(matrix, operands);

    EXPECT_TRUE(report.within_bound()) << report.max_bound_ratio;
    EXPECT_GT(report.max_error, 0) << "a sum of 150 rounded terms cannot be exact everywhere";
  }
}

TEST(Float64, AWrongElementIsFoundWhereItIs) {
  const CsrMatrix matrix = five_by_five();
  const std::vector<float> b = {1, 1, 1, 1, 1};
  std::vector<float> c = {3, 3, 0, 9, 5};
  c[3] = std::nextafter(std::nextafter(std::nextafter(9.0F, 10.0F), 10.0F), 10.0F);

  const auto report = spjit::compare_with_float64(matrix, {b.data(), 1, c.data(), 1, 1});

  EXPECT_FALSE(report.within_bound());
  EXPECT_EQ(report.row, 3);
  EXPECT_EQ(report.col, 0);
  EXPECT_EQ(report.max_error, 3 * 0x1p-20);
}

TEST(Float64, EmptyRowsAllowNoErrorAtAll) {
  const CsrMatrix matrix = five_by_five();
  const std::vector<float> b = {1, 1, 1, 1, 1};
  const std::vector<float> c = {3, 3, 1e-30F, 9, 5};
  std::vector<float> given = c;

  const auto report = spjit::compare_with_float64(matrix, {b.data(), 1, given.data(), 1, 1});

  EXPECT_FALSE(report.within_bound());
  EXPECT_EQ(report.row, 2);
}

TEST(Float64, NanMustBeNanAndInfinityInfinity) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> dense = {1, 1};
  const CsrMatrix matrix = spjit::csr_from_dense(dense.data(), 2, 1);
  const std::vector<float> b = {nan, infinity};
  std::vector<float> right = {nan, infinity, nan, infinity};
  std::vector<float> wrong = {nan, infinity, 0, infinity};

  EXPECT_TRUE(
      spjit::compare_with_float64(matrix, {b.data(), 2, right.data(), 2, 2}).within_bound());
  const auto report = spjit::compare_with_float64(matrix, {b.data(), 2, wrong.data(), 2, 2});

  EXPECT_FALSE(report.within_bound());
  EXPECT_EQ(report.row, 1);
  EXPECT_EQ(report.col, 0);
}

}  // namespace

#include "kernels/host/dense/dense_kernel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "spjit/error.hpp"
#include "tests/support/guarded_buffers.hpp"
#include "tests/support/guarded_operands.hpp"
#include "tests/support/long_tests.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::CsrMatrix;
using spjit::DenseMatrix;
using spjit::HostIsa;
using spjit::RowRange;
using spjit::view_of;
using spjit::testing_support::dense_values;
using spjit::testing_support::GuardedFloats;
using spjit::testing_support::GuardedOperands;
using spjit::testing_support::GuardPlacement;
using spjit::testing_support::in_turn_if_emulated;
using spjit::testing_support::index;
using spjit::testing_support::isa_and_placement;
using spjit::testing_support::IsaAndPlacement;
using spjit::testing_support::k_placements;
using spjit::testing_support::OperandShape;
using spjit::testing_support::random_matrix;

constexpr float k_endless = std::numeric_limits<float>::infinity();
constexpr float k_no_number = std::numeric_limits<float>::quiet_NaN();
constexpr float k_smallest = std::numeric_limits<float>::denorm_min();

class DenseKernel : public testing::TestWithParam<IsaAndPlacement> {
 protected:
  void SetUp() override {
    if (!spjit::Target(isa()).runs_here()) GTEST_SKIP() << "no " << to_string(isa()) << " here";
  }
  static HostIsa isa() { return std::get<HostIsa>(GetParam()); }

  /// Everything that is read and written lies against pages that cannot be touched.
  static bool runs(const GuardedOperands& operands, const CsrMatrix& matrix,
                   const OperandShape& shape, RowRange rows) {
    const GuardedFloats workspace(DenseMatrix::k_workspace_floats, GuardPlacement::at_end);
    const bool ran = DenseMatrix(view_of(matrix), rows)
                         .run({operands.b(), shape.ldb, operands.c(), shape.ldc, shape.n}, isa(),
                              workspace.data());
    EXPECT_TRUE(workspace.intact());
    return ran;
  }

  static void expect_product(const CsrMatrix& matrix, const OperandShape& shape,
                             const std::vector<float>& b = {}, std::int64_t parts = 1) {
    const GuardedOperands operands(matrix, shape, std::get<GuardPlacement>(GetParam()), b);
    for (const RowRange& rows : spjit::split_rows(view_of(matrix), parts)) {
      EXPECT_TRUE(runs(operands, matrix, shape, rows)) << operands.describe();
    }
    EXPECT_TRUE(operands.holds_product(matrix, isa()))
        << matrix.rows << " x " << matrix.cols << ", " << operands.describe();
  }

  /// Whether it takes a B of these values, with the bits of the reference.
  static bool takes(const CsrMatrix& matrix, std::int64_t n, const std::vector<float>& b) {
    const OperandShape shape{n, n, n};
    const GuardedOperands operands(matrix, shape, std::get<GuardPlacement>(GetParam()), b);
    const bool ran = runs(operands, matrix, shape, {0, matrix.rows});
    if (ran) {
      EXPECT_TRUE(operands.holds_product(matrix, isa())) << n;
    }
    return ran;
  }
};

TEST_P(DenseKernel, ComputesEveryShape) {
  for (const std::int64_t rows : {1, 2, 7, 8, 9, 15, 16, 17, 24, 25, 50}) {
    for (const std::int64_t cols :
         in_turn_if_emulated<std::int64_t>(6, {1, 2, 255, 256, 257, 600})) {
      for (const double sparsity : {0.0, 0.5, 0.95, 1.0}) {
        const CsrMatrix matrix = random_matrix(rows, cols, sparsity);
        for (const std::int64_t n : {1, 4, 5, 8, 14, 15, 16, 17, 31, 33, 64}) {
          expect_product(matrix, {n, n, n});
          expect_product(matrix, {n, n + 3, n + 2});
        }
      }
    }
  }
}

TEST_P(DenseKernel, ComputesEveryWidth) {
  const CsrMatrix matrix = random_matrix(21, 300, 0.4);
  for (std::int64_t n = 1; n <= 130; ++n) expect_product(matrix, {n, n, n});
  for (const std::int64_t n : {287, 288, 289, 304, 577}) expect_product(matrix, {n, n + 1, n});
}

TEST_P(DenseKernel, ComputesSeveralStripsAtOnce) {
  for (const std::int64_t rows : {32, 48, 64, 65, 113, 128}) {
    for (const std::int64_t cols : {1, 256, 300}) {
      const CsrMatrix matrix = random_matrix(rows, cols, 0.4);
      for (std::int64_t n = 1; n <= 5; ++n) {
        expect_product(matrix, {n, n, n});
        expect_product(matrix, {n, n + 1, n + 2});
      }
    }
  }
}

TEST_P(DenseKernel, ComputesPartsOfRows) {
  const CsrMatrix matrix = random_matrix(100, 270, 0.4);
  for (const std::int64_t parts : {2, 3, 7}) {
    for (const std::int64_t n : {1, 3, 20, 40}) expect_product(matrix, {n, n, n}, {}, parts);
  }
}

TEST_P(DenseKernel, TakesNoColumnsAndExplicitZeros) {
  expect_product(random_matrix(5, 0, 0.5), {40, 40, 40});
  expect_product(random_matrix(5, 0, 0.5), {2, 2, 2});
  const CsrMatrix zeros{2, 3, {0, 2, 3}, {0, 2, 1}, {0.0F, -0.0F, 3.0F}};
  for (const std::int64_t n : {1, 40}) expect_product(zeros, {n, n, n});
}

TEST_P(DenseKernel, KeepsTheSignsOfZeros) {
  const CsrMatrix matrix = random_matrix(20, 300, 0.5);
  for (const std::int64_t n : {1, 5, 15, 33}) {
    std::vector<float> b = dense_values(300 * n);
    for (std::size_t i = 0; i < b.size(); ++i) {
      if (i % 3 == 0) b[i] = i % 2 == 0 ? 0.0F : -0.0F;
    }
    expect_product(matrix, {n, n, n}, b);
    expect_product(matrix, {n, n, n}, std::vector<float>(b.size(), -0.0F));
  }
}

TEST_P(DenseKernel, TakesValuesOfAThatAreNoNumbers) {
  CsrMatrix matrix = random_matrix(20, 300, 0.5);
  matrix.values[3] = k_no_number;
  matrix.values[70] = k_endless;
  matrix.values[500] = -k_endless;
  for (const std::int64_t n : {1, 5, 15, 33}) expect_product(matrix, {n, n, n});
}

TEST_P(DenseKernel, LeavesABThatIsNotFiniteWhereverThatIs) {
  const CsrMatrix matrix = random_matrix(20, 600, 0.5);
  for (const std::int64_t n : {1, 2, 5, 14, 15, 16, 33, 300}) {
    const std::vector<float> b = dense_values(600 * n);
    EXPECT_TRUE(takes(matrix, n, b)) << n;
    for (const float value : {k_no_number, k_endless, -k_endless}) {
      for (const std::int64_t at : {std::int64_t{0}, n - 1, 300 * n, 600 * n - 1}) {
        std::vector<float> planted = b;
        planted[index(at)] = value;
        EXPECT_FALSE(takes(matrix, n, planted)) << n << " " << at << " " << value;
      }
    }
  }
}

// The product is -2^-160 before it is rounded: the sum is -0, which a product with a zero of A
// would turn into +0.
TEST_P(DenseKernel, LeavesProductsThatMayRoundToZero) {
  const CsrMatrix matrix{1, 2, {0, 1}, {0}, {-std::ldexp(1.0F, -80)}};
  for (const std::int64_t n : {1, 5, 15, 33}) {
    const std::vector<float> tiny(index(2 * n), std::ldexp(1.0F, -80));
    EXPECT_FALSE(takes(matrix, n, tiny)) << n;
    const std::vector<float> denormal(index(2 * n), k_smallest);
    EXPECT_FALSE(takes(matrix, n, denormal)) << n;
  }
}

TEST_P(DenseKernel, TakesBFromTheLeastMagnitudeOnThatItNames) {
  CsrMatrix matrix = random_matrix(3, 40, 0.5);
  matrix.values[4] = std::ldexp(1.5F, -60);
  const float least = DenseMatrix(view_of(matrix), {0, 3}).least_b();
  EXPECT_EQ(least, std::ldexp(1.0F, -43));
  for (const std::int64_t n : {1, 5, 15, 33}) {
    std::vector<float> b = dense_values(40 * n);
    b[index(7 * n)] = -least;
    EXPECT_TRUE(takes(matrix, n, b)) << n;
    b[index(7 * n)] = std::nextafter(least, 0.0F);
    EXPECT_FALSE(takes(matrix, n, b)) << n;
  }
}

TEST(DenseMatrixOf, NamesTheLeastMagnitudeOfB) {
  const auto least_b = [](std::vector<float> values) {
    const auto nnz = std::ssize(values);
    CsrMatrix matrix{1, 8, {0, nnz}, {}, std::move(values)};
    for (std::int32_t column = 0; column < nnz; ++column) matrix.col_idxs.push_back(column);
    return DenseMatrix(view_of(matrix), {0, 1}).least_b();
  };

  EXPECT_EQ(least_b({1.0F, -3.0F}), std::ldexp(1.0F, -103));
  EXPECT_EQ(least_b({4.0F, -0.5F}), std::ldexp(1.0F, -102));
  EXPECT_EQ(least_b({std::ldexp(1.0F, 100)}), std::ldexp(1.0F, -126)) << "denormals have few bits";
  EXPECT_EQ(least_b({}), std::ldexp(1.0F, -126));
  EXPECT_EQ(least_b({0.0F, k_no_number, k_endless}), std::ldexp(1.0F, -126));
  EXPECT_EQ(least_b({1.0F, k_smallest}), std::ldexp(1.0F, 23));
}

TEST(DenseMatrixOf, RefusesColumnsThatDoNotAscend) {
  for (const std::vector<std::int32_t>& columns :
       {std::vector<std::int32_t>{300, 5}, {5, 4}, {7, 7}, {1, 260, 259}}) {
    CsrMatrix matrix{2, 400, {0, 0, std::ssize(columns)}, columns, {}};
    matrix.values.assign(columns.size(), 1.0F);

    try {
      static_cast<void>(DenseMatrix(view_of(matrix), {0, 2}));
      FAIL() << "columns from " << columns.front() << " on were taken";
    } catch (const spjit::Error& error) {
      EXPECT_EQ(std::string(error.what()), "the columns of row 1 of A do not ascend");
    }
  }
}

TEST(DenseMatrixOf, StopsWhenItIsCancelled) {
  std::stop_source stop;
  stop.request_stop();
  const CsrMatrix matrix = random_matrix(500, 500, 0.2);

  EXPECT_THROW(DenseMatrix(view_of(matrix), {0, 500}, {.deadline = {}, .stop = stop.get_token()}),
               spjit::Cancelled);
}

TEST(DenseMatrixOf, HasAllEntriesInWholeStrips) {
  EXPECT_EQ(DenseMatrix(view_of(random_matrix(17, 300, 0.9)), {0, 17}).bytes(), 32 * 300 * 4);
}

INSTANTIATE_TEST_SUITE_P(Guarded, DenseKernel,
                         testing::Combine(testing::Values(HostIsa::avx512, HostIsa::avx2),
                                          testing::ValuesIn(k_placements)),
                         isa_and_placement);

}  // namespace

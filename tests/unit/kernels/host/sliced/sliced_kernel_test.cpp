#include "kernels/host/sliced/sliced_kernel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <stop_token>
#include <vector>

#include "kernels/host/host_rules.hpp"
#include "kernels/host/loops/csr_kernel.hpp"
#include "spjit/error.hpp"
#include "spjit/matrix.hpp"
#include "tests/support/guarded_buffers.hpp"
#include "tests/support/guarded_operands.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::CsrMatrix;
using spjit::CsrView;
using spjit::FloatBuffer;
using spjit::HostIsa;
using spjit::RowRange;
using spjit::SlicedMatrix;
using spjit::SlicedOperands;
using spjit::view_of;
using spjit::testing_support::dense_values;
using spjit::testing_support::GuardedBuffers;
using spjit::testing_support::GuardedFloats;
using spjit::testing_support::GuardedOperands;
using spjit::testing_support::GuardPlacement;
using spjit::testing_support::index;
using spjit::testing_support::k_placements;
using spjit::testing_support::OperandShape;
using spjit::testing_support::random_matrix;
using spjit::testing_support::same_bits;

constexpr float k_nan = std::numeric_limits<float>::quiet_NaN();
constexpr float k_infinity = std::numeric_limits<float>::infinity();

/// Rows of such columns, each entry with a value of its own.
CsrMatrix matrix_of(std::int64_t cols, const std::vector<std::vector<std::int32_t>>& rows) {
  CsrMatrix matrix{std::ssize(rows), cols, {0}, {}, {}};
  for (const std::vector<std::int32_t>& row : rows) {
    for (const std::int32_t column : row) {
      matrix.col_idxs.push_back(column);
      matrix.values.push_back(0.25F + static_cast<float>(matrix.nnz() % 97));
    }
    matrix.row_ptrs.push_back(matrix.nnz());
  }
  return matrix;
}

/// What both kernels make of B, with padding between the rows of C that must stay as it was. All
/// that is read and written lies against pages that cannot be touched.
struct Product {
  GuardedOperands sliced;
  GuardedOperands csr;
  bool intact = false;

  Product(const CsrMatrix& matrix, const OperandShape& shape, GuardPlacement placement,
          const std::vector<float>& b = {}, std::int64_t parts = 1)
      : sliced(matrix, shape, placement, b), csr(matrix, shape, placement, b) {
    const GuardedBuffers guarded(placement);
    const SlicedMatrix slices(view_of(matrix));
    const GuardedFloats columns(slices.column_floats() * shape.n, placement);
    slices.copy_columns({sliced.b(), shape.ldb, nullptr, 0, shape.n}, columns.data());
    columns.seal();
    const SlicedOperands operands{columns.data(), sliced.c(), shape.ldc, shape.n};
    slices.zero_empty_rows(operands);
    for (const RowRange& part : slices.split(parts, shape.n)) slices.run(part, operands);
    intact = columns.intact();
    spjit::run_csr(view_of(matrix), HostIsa::avx512,
                   {csr.b(), shape.ldb, csr.c(), shape.ldc, shape.n});
  }

  [[nodiscard]] bool same() const { return intact && same_bits(sliced.all_of_c(), csr.all_of_c()); }
};

class SlicedKernel : public testing::TestWithParam<GuardPlacement> {
 protected:
  void SetUp() override {
    if (!spjit::Target(HostIsa::avx512).runs_here()) GTEST_SKIP() << "no AVX-512 here";
  }

  static void expect_same(const CsrMatrix& matrix, const OperandShape& shape) {
    const Product product(matrix, shape, GetParam());
    EXPECT_TRUE(product.same()) << matrix.rows << " x " << matrix.cols << ", "
                                << product.sliced.describe();
  }
};

TEST_P(SlicedKernel, GivesTheBitsOfTheCsrKernelForEveryShape) {
  for (const std::int64_t rows : {1, 2, 15, 16, 17, 33, 64, 100}) {
    for (const std::int64_t cols : {1, 2, 31, 32, 33, 63, 64, 300}) {
      for (const double sparsity : {0.0, 0.5, 0.9, 0.99, 1.0}) {
        const CsrMatrix matrix = random_matrix(rows, cols, sparsity);
        for (std::int64_t n = 1; n <= spjit::k_most_sliced_columns; ++n) {
          expect_same(matrix, {n, n, n});
          expect_same(matrix, {n, n + 3, n + 2});
        }
      }
    }
  }
}

TEST_P(SlicedKernel, TakesWindowsWhereverEntriesAre) {
  std::vector<std::int32_t> all(200);
  for (std::int32_t column = 0; column < 200; ++column) all[index(column)] = column;
  const std::vector<std::vector<std::int32_t>> rows = {all,       // a dense row beside short ones
                                                       {},        // and empty ones
                                                       {199},     // the last column
                                                       {0, 199},  // from the first to the last
                                                       {0, 31, 32, 63},  // both ends of windows
                                                       {167, 168},  // where the last window begins
                                                       {},
                                                       {5, 36, 37, 68, 69, 100, 101}};
  const CsrMatrix matrix = matrix_of(200, rows);

  expect_same(matrix, {1, 1, 1});
  expect_same(matrix, {4, 4, 4});
}

TEST_P(SlicedKernel, AnElementOfBWithoutAnEntryIsNeverUsed) {
  CsrMatrix matrix = random_matrix(40, 150, 0.8);
  std::vector<float> b = dense_values(150);
  std::mt19937 random(5);
  for (int poisoned = 0; poisoned < 20; ++poisoned) {
    const auto column = static_cast<std::int32_t>(random() % 150);
    b[index(column)] = poisoned % 2 == 0 ? k_nan : k_infinity;
  }
  // Values that must be told from padding.
  for (std::size_t i = 0; i < matrix.values.size(); i += 3) matrix.values[i] = i % 2 ? 0.0F : -0.0F;

  const Product product(matrix, {1, 1, 1}, GetParam(), b);

  EXPECT_TRUE(product.same());
  EXPECT_TRUE(std::ranges::any_of(product.sliced.all_of_c(), [](float c) { return c == c; }));
  EXPECT_TRUE(std::ranges::any_of(product.sliced.all_of_c(), [](float c) { return c != c; }));
}

TEST_P(SlicedKernel, KeepsNegativeZerosAndDenormals) {
  const float denormal = std::numeric_limits<float>::denorm_min();
  CsrMatrix matrix = matrix_of(64, {{0, 1}, {1, 40}, {2}, {3, 63}});
  matrix.values = {-denormal, 1, denormal, denormal, -1e-30F, 1, 0.5F};
  std::vector<float> b(64, 0.25F);
  b[1] = 3;
  b[2] = 1e-30F;
  b[3] = -0.0F;

  const Product product(matrix, {1, 1, 1}, GetParam(), b);

  EXPECT_TRUE(product.same());
  const float underflowed = product.sliced.all_of_c()[2];
  EXPECT_TRUE(std::signbit(underflowed) && underflowed == 0);
}

TEST_P(SlicedKernel, AnySplitGivesTheSameAndHasEverySliceOnce) {
  const CsrMatrix matrix = random_matrix(3000, 90, 0.8);
  const SlicedMatrix slices(view_of(matrix));
  for (const std::int64_t parts : {1, 2, 3, 7, 100}) {
    std::int64_t next = 0;
    for (const RowRange& part : slices.split(parts, 2)) {
      EXPECT_EQ(part.begin, next);
      EXPECT_LT(part.begin, part.end);
      next = part.end;
    }
    EXPECT_EQ(next, slices.slices());
    EXPECT_LE(std::ssize(slices.split(parts, 2)), parts);
    EXPECT_TRUE(Product(matrix, {2, 2, 2}, GetParam(), {}, parts).same()) << parts;
  }
  EXPECT_GT(slices.split(7, 2).size(), 2U);
}

TEST_P(SlicedKernel, ReadsNothingBesideBWhereItTakesItInPlace) {
  for (const std::int64_t cols : {32, 48, 64, 160}) {
    const CsrMatrix matrix = random_matrix(50, cols, 0.7);
    const SlicedMatrix slices(view_of(matrix));
    const GuardedOperands operands(matrix, {1, 1, 1}, GetParam());
    ASSERT_TRUE(slices.takes_in_place({operands.b(), 1, operands.c(), 1, 1}));

    const SlicedOperands in_place{operands.b(), operands.c(), 1, 1};
    slices.zero_empty_rows(in_place);
    slices.run({0, slices.slices()}, in_place);

    EXPECT_TRUE(operands.holds_product(matrix, HostIsa::avx512)) << cols;
  }
}

INSTANTIATE_TEST_SUITE_P(Avx512, SlicedKernel, testing::ValuesIn(k_placements),
                         testing::PrintToStringParamName());

TEST(SlicedMatrix, ArrangesValuesThatItWasMadeWithout) {
  const CsrMatrix matrix = random_matrix(37, 90, 0.6);
  CsrView pattern = view_of(matrix);
  pattern.values = {};
  const SlicedMatrix slices(pattern);
  std::vector<float> values(matrix.values.size());
  std::iota(values.begin(), values.end(), 1.0F);

  const FloatBuffer arranged = slices.arrange(values);

  EXPECT_EQ(std::ssize(arranged.span()), slices.steps() * SlicedMatrix::k_lanes);
  std::vector<float> sorted(arranged.data(), arranged.data() + arranged.size());
  std::ranges::sort(sorted);
  const auto entries = std::ranges::upper_bound(sorted, 0.0F);
  EXPECT_TRUE(std::equal(entries, sorted.end(), values.begin(), values.end()));
}

TEST(SlicedMatrix, KeepsNeighboursTogetherWhereTheyHaveLikeColumns) {
  // A band of rows of 1 to 23 entries: 6186 steps with each 128 rows sorted, 13153 with all.
  std::vector<std::vector<std::int32_t>> rows(2048);
  for (int row = 0; row < 2048; ++row) {
    for (int i = 0; i <= row * 7 % 23; ++i) rows[index(row)].push_back(row + i);
  }

  EXPECT_LT(SlicedMatrix(view_of(matrix_of(2048 + 23, rows))).steps(), 7000);
}

TEST(SlicedMatrix, IsNotSplitWhereAThreadWouldHaveLittleToDo) {
  EXPECT_TRUE(SlicedMatrix(view_of(random_matrix(5, 5, 1.0))).split(4, 1).empty());
  EXPECT_EQ(SlicedMatrix(view_of(random_matrix(200, 90, 0.8))).split(4, 1).size(), 1U);
}

TEST(SlicedMatrix, ReadsBWhereItIsIfThatIsAlignedAndLongEnough) {
  const GuardedFloats aligned(128, GuardPlacement::at_start);
  const float* b = aligned.data();
  const auto in_place = [](std::int64_t cols, const float* at, std::int64_t n, std::int64_t ldb) {
    return SlicedMatrix(view_of(random_matrix(20, cols, 0.5)))
        .takes_in_place({at, ldb, nullptr, n, n});
  };
  EXPECT_TRUE(in_place(64, b, 1, 1));
  EXPECT_FALSE(in_place(64, b + 1, 1, 1));
  EXPECT_FALSE(in_place(64, b, 1, 2));
  EXPECT_FALSE(in_place(64, b, 2, 2));
  EXPECT_FALSE(in_place(63, b, 1, 1));  // 64 would be read
  EXPECT_FALSE(in_place(16, b, 1, 1));
}

TEST(SlicedMatrix, AStepTakesColumnsOfAWindowOf32) {
  const auto steps = [](std::int32_t column) {
    return SlicedMatrix(view_of(matrix_of(64, {{0}, {column}}))).steps();
  };
  EXPECT_EQ(steps(31), 1);
  EXPECT_EQ(steps(32), 2);
}

TEST(SlicedMatrix, SortsRowsByLengthSoThatALaneWaitsForFew) {
  // Thirty-two rows of one entry and of forty, alternating: two slices, not two of forty steps
  // each.
  std::vector<std::vector<std::int32_t>> rows;
  for (int row = 0; row < 32; ++row) {
    rows.emplace_back(row % 2 == 0 ? 1 : 40);
    for (std::size_t i = 0; i < rows.back().size(); ++i) rows.back()[i] = static_cast<int>(i);
  }

  const SlicedMatrix slices(view_of(matrix_of(40, rows)));

  EXPECT_EQ(slices.slices(), 2);
  EXPECT_EQ(slices.steps(), 41);
}

TEST(SlicedBytes, CanBeCancelled) {
  const CsrMatrix matrix = random_matrix(100, 100, 0.5);
  std::stop_source stop;
  stop.request_stop();

  EXPECT_THROW(static_cast<void>(spjit::sliced_bytes(view_of(matrix),
                                                     {.deadline = {}, .stop = stop.get_token()})),
               spjit::Cancelled);
}

TEST(SlicedBytes, AreThoseOfItsSteps) {
  const CsrMatrix matrix = random_matrix(100, 100, 0.5);
  constexpr std::int64_t k_step_bytes = 16 * 5 + 4;

  EXPECT_EQ(spjit::sliced_bytes(view_of(matrix)),
            SlicedMatrix(view_of(matrix)).steps() * k_step_bytes);
}

TEST(PrefersSlices, UnlessPaddingIsMostOfIt) {
  const auto prefers = [](const CsrMatrix& matrix) {
    const auto bytes = static_cast<double>(spjit::sliced_bytes(view_of(matrix)));
    return spjit::prefers_slices(matrix, bytes);
  };
  EXPECT_TRUE(prefers(random_matrix(100, 100, 0.5)));
  // An entry a row, each far from the others: a step for every one of them.
  std::vector<std::vector<std::int32_t>> rows(20'000);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    rows[row] = {static_cast<std::int32_t>(row * 1009 % 1'000'000)};
  }
  EXPECT_FALSE(prefers(matrix_of(1'000'000, rows)));
  for (std::vector<std::int32_t>& row : rows) row[0] %= 60'000;
  rows.resize(100);
  EXPECT_TRUE(prefers(matrix_of(60'000, rows)));
}

}  // namespace

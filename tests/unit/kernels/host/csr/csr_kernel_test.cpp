#include "kernels/host/loops/csr_kernel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "base/host_cpu.hpp"
#include "spjit/generate.hpp"
#include "spjit/matrix.hpp"
#include "tests/support/guarded_operands.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::CsrMatrix;
using spjit::HostIsa;
using spjit::RowRange;
using spjit::testing_support::Guarded;
using spjit::testing_support::GuardedOperands;
using spjit::testing_support::GuardPlacement;
using spjit::testing_support::isa_and_placement;
using spjit::testing_support::IsaAndPlacement;
using spjit::testing_support::k_placements;
using spjit::testing_support::OperandShape;

/// Uneven rows, with the first, a middle and the last one emptied and one filled.
CsrMatrix planted_matrix(std::int64_t rows, std::int64_t cols, double sparsity) {
  spjit::GenerateOptions options;
  options.rows = rows;
  options.cols = cols;
  options.sparsity = sparsity;
  options.pattern = spjit::MatrixPattern::uneven_rows;
  const CsrMatrix drawn = spjit::generate_matrix(options);
  CsrMatrix matrix{rows, cols, {0}, {}, {}};
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto r = static_cast<std::size_t>(row);
    if (row == 1) {
      for (std::int64_t col = 0; col < cols; ++col) {
        matrix.col_idxs.push_back(static_cast<std::int32_t>(col));
        matrix.values.push_back(0.5F + static_cast<float>(col));
      }
    } else if (row != 0 && row != rows / 2 && row != rows - 1) {
      matrix.col_idxs.insert(matrix.col_idxs.end(), drawn.col_idxs.begin() + drawn.row_ptrs[r],
                             drawn.col_idxs.begin() + drawn.row_ptrs[r + 1]);
      matrix.values.insert(matrix.values.end(), drawn.values.begin() + drawn.row_ptrs[r],
                           drawn.values.begin() + drawn.row_ptrs[r + 1]);
    }
    matrix.row_ptrs.push_back(matrix.nnz());
  }
  matrix.validate();
  return matrix;
}

/// A matrix whose parts and operands all lie against pages that cannot be touched.
struct GuardedProduct {
  GuardedProduct(const CsrMatrix& matrix, const OperandShape& shape, GuardPlacement placement)
      : operands(matrix, shape, placement),
        row_ptrs(matrix.row_ptrs, placement),
        col_idxs(matrix.col_idxs, placement),
        values(matrix.values, placement),
        view{matrix.rows, matrix.cols, row_ptrs.span(), col_idxs.span(), values.span()},
        dense{operands.b(), shape.ldb, operands.c(), shape.ldc, shape.n} {}

  GuardedOperands operands;
  Guarded<std::int64_t> row_ptrs;
  Guarded<std::int32_t> col_idxs;
  Guarded<float> values;
  spjit::CsrView view;
  spjit::Product dense;
};

class CsrKernel : public testing::TestWithParam<IsaAndPlacement> {
 protected:
  void SetUp() override {
    if (!spjit::Target(isa()).runs_here()) GTEST_SKIP() << "no " << to_string(isa()) << " here";
  }
  static HostIsa isa() { return std::get<HostIsa>(GetParam()); }

  static void expect_product(const CsrMatrix& matrix, const OperandShape& shape) {
    const GuardedProduct product(matrix, shape, std::get<GuardPlacement>(GetParam()));

    spjit::run_csr(product.view, isa(), product.dense);

    ASSERT_TRUE(product.operands.holds_product(matrix, isa())) << product.operands.describe();
  }
};

TEST_P(CsrKernel, GivesTheReferencesBitsForEveryTail) {
  const CsrMatrix matrix = planted_matrix(23, 40, 0.8);
  for (std::int64_t n = 1; n <= 300; n += n < 40 ? 1 : 13) {
    expect_product(matrix, {n, n + 3, n + 5});
  }
}

TEST_P(CsrKernel, ReadsAndWritesNothingBeyondTheArrays) {
  const CsrMatrix matrix = planted_matrix(9, 12, 0.5);
  for (std::int64_t n = 1; n <= 130; ++n) expect_product(matrix, {n, n, n});
}

TEST_P(CsrKernel, WideMatricesUseSeveralColumnBlocks) {
  expect_product(planted_matrix(11, 9000, 0.99), {531, 531, 531});
}

TEST_P(CsrKernel, RangesOfRowsMakeTheWholeAndLeaveTheRestAlone) {
  const CsrMatrix matrix = planted_matrix(37, 25, 0.6);
  const std::int64_t n = 20;
  const GuardedProduct product(matrix, {n, n, n}, std::get<GuardPlacement>(GetParam()));

  spjit::run_csr(product.view, isa(), RowRange{5, 9}, product.dense);
  const auto untouched =
      std::ranges::count(product.operands.all_of_c(), GuardedOperands::k_untouched);
  for (const RowRange range : spjit::split_rows(product.view, 4)) {
    spjit::run_csr(product.view, isa(), range, product.dense);
  }

  EXPECT_EQ(untouched, (matrix.rows - 4) * n);
  EXPECT_TRUE(product.operands.holds_product(matrix, isa()));
}

TEST_P(CsrKernel, EmptyMatricesAreFine) {
  const CsrMatrix no_rows{0, 5, {0}, {}, {}};
  const CsrMatrix no_cols{2, 0, {0, 0, 0}, {}, {}};
  std::vector<float> c(6, -7.0F);

  spjit::run_csr(spjit::view_of(no_rows), isa(), {nullptr, 3, nullptr, 3, 3});
  spjit::run_csr(spjit::view_of(no_cols), isa(), {nullptr, 3, c.data(), 3, 3});

  EXPECT_EQ(c, std::vector<float>(6, 0.0F));
}

INSTANTIATE_TEST_SUITE_P(AllIsas, CsrKernel,
                         testing::Combine(testing::Values(HostIsa::avx512, HostIsa::avx2,
                                                          HostIsa::generic),
                                          testing::ValuesIn(k_placements)),
                         isa_and_placement);

TEST(SplitRows, CutsByWorkNotByRows) {
  // Work (entries + rows): 101, 1, 1, 1.
  CsrMatrix matrix{4, 100, {0, 100, 100, 100, 100}, {}, {}};
  matrix.col_idxs.resize(100);
  matrix.values.resize(100);

  const auto ranges = spjit::split_rows(spjit::view_of(matrix), 2);

  EXPECT_EQ(ranges, (std::vector<RowRange>{{0, 1}, {1, 4}}));
}

TEST(SplitRows, EmptyRowsAreWorkToo) {
  // All of C is written: 99 rows of nothing, then one of two entries.
  CsrMatrix matrix{100, 5, std::vector<std::int64_t>(101, 0), {0, 1}, {1, 1}};
  matrix.row_ptrs.back() = 2;

  const auto ranges = spjit::split_rows(spjit::view_of(matrix), 2);

  EXPECT_EQ(ranges, (std::vector<RowRange>{{0, 51}, {51, 100}}));
}

TEST(SplitRows, CoversEveryRowOnceWithoutEmptyRanges) {
  const CsrMatrix matrix = planted_matrix(37, 25, 0.6);
  for (const std::int64_t parts : {1, 2, 3, 7, 36, 37, 100}) {
    const auto ranges = spjit::split_rows(spjit::view_of(matrix), parts);

    std::int64_t next = 0;
    for (const RowRange range : ranges) {
      EXPECT_EQ(range.begin, next);
      EXPECT_LT(range.begin, range.end);
      next = range.end;
    }
    EXPECT_EQ(next, matrix.rows);
    EXPECT_LE(static_cast<std::int64_t>(ranges.size()), parts);
  }
}

TEST(SplitRows, NoRowsNoRanges) {
  const CsrMatrix matrix{0, 5, {0}, {}, {}};

  EXPECT_TRUE(spjit::split_rows(spjit::view_of(matrix), 3).empty());
}

}  // namespace

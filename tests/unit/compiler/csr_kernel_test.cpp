#include "compiler/csr_kernel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "compiler/kernel_plan.hpp"
#include "compiler/reference.hpp"
#include "reorder/row_grouping.hpp"
#include "runtime/host_cpu.hpp"
#include "spjit/generate.hpp"
#include "spjit/matrix.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::CsrMatrix;
using spjit::HostIsa;
using spjit::RowRange;
using spjit::testing_support::dense_values;
using spjit::testing_support::isa_name;

bool runs_here(HostIsa isa) {
  const spjit::HostCpu cpu = spjit::detect_host_cpu();
  return isa == HostIsa::generic || (isa == HostIsa::avx2 ? cpu.avx2_fma : cpu.avx512);
}

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

/// The evaluator's C `[rows x ldc]`, `fill` between its rows.
std::vector<float> reference(const CsrMatrix& matrix, HostIsa isa, const std::vector<float>& b,
                             spjit::DenseOperands operands, float fill) {
  std::vector<float> c(static_cast<std::size_t>(matrix.rows * operands.ldc), fill);
  const auto grouping = spjit::group_rows(matrix, 4, spjit::ReorderAlgorithm::none);
  operands.b = b.data();
  operands.c = c.data();
  spjit::evaluate(spjit::build_plan(matrix, grouping, matrix.cols), spjit::arithmetic_of(isa),
                  operands);
  return c;
}

bool same_bits(const std::vector<float>& left, const std::vector<float>& right) {
  return left.size() == right.size() &&
         std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0;
}

class CsrKernel : public testing::TestWithParam<HostIsa> {
 protected:
  void SetUp() override {
    if (!runs_here(GetParam())) GTEST_SKIP() << "no " << to_string(GetParam()) << " here";
  }
};

TEST_P(CsrKernel, GivesTheReferencesBitsForEveryTail) {
  const CsrMatrix matrix = planted_matrix(23, 40, 0.8);
  for (std::int64_t n = 1; n <= 300; n += n < 40 ? 1 : 13) {
    const std::int64_t ldb = n + 3;
    const std::int64_t ldc = n + 5;
    const std::vector<float> b = dense_values(matrix.cols * ldb);
    std::vector<float> c(static_cast<std::size_t>(matrix.rows * ldc), -7.0F);

    spjit::run_csr(spjit::view_of(matrix), GetParam(), {b.data(), ldb, c.data(), ldc, n});

    const auto expected = reference(matrix, GetParam(), b, {nullptr, ldb, nullptr, ldc, n}, -7.0F);
    ASSERT_TRUE(same_bits(c, expected)) << "n = " << n;
  }
}

TEST_P(CsrKernel, ReadsAndWritesNothingBeyondTheArrays) {
  // Under AddressSanitizer this is a check of reads too: both arrays end with the last element.
  const CsrMatrix matrix = planted_matrix(9, 12, 0.5);
  for (const std::int64_t n : {1, 3, 5, 7, 9, 15, 17, 31, 33, 129}) {
    const std::vector<float> b = dense_values(matrix.cols * n);
    std::vector<float> c(static_cast<std::size_t>(matrix.rows * n), -7.0F);

    spjit::run_csr(spjit::view_of(matrix), GetParam(), {b.data(), n, c.data(), n, n});

    const auto expected = reference(matrix, GetParam(), b, {nullptr, n, nullptr, n, n}, 0.0F);
    ASSERT_TRUE(same_bits(c, expected)) << "n = " << n;
  }
}

TEST_P(CsrKernel, WideMatricesUseSeveralColumnBlocks) {
  const CsrMatrix matrix = planted_matrix(11, 9000, 0.99);
  const std::int64_t n = 531;
  const std::vector<float> b = dense_values(matrix.cols * n);
  std::vector<float> c(static_cast<std::size_t>(matrix.rows * n), -7.0F);

  spjit::run_csr(spjit::view_of(matrix), GetParam(), {b.data(), n, c.data(), n, n});

  const auto expected = reference(matrix, GetParam(), b, {nullptr, n, nullptr, n, n}, 0.0F);
  EXPECT_TRUE(same_bits(c, expected));
}

TEST_P(CsrKernel, RangesOfRowsMakeTheWholeAndLeaveTheRestAlone) {
  const CsrMatrix matrix = planted_matrix(37, 25, 0.6);
  const std::int64_t n = 20;
  const std::vector<float> b = dense_values(matrix.cols * n);
  std::vector<float> c(static_cast<std::size_t>(matrix.rows * n), -7.0F);
  const spjit::CsrView view = spjit::view_of(matrix);
  const auto expected = reference(matrix, GetParam(), b, {nullptr, n, nullptr, n, n}, 0.0F);

  spjit::run_csr(view, GetParam(), RowRange{5, 9}, {b.data(), n, c.data(), n, n});
  const auto untouched = std::count(c.begin(), c.end(), -7.0F);
  for (const RowRange range : spjit::split_rows(view, 4)) {
    spjit::run_csr(view, GetParam(), range, {b.data(), n, c.data(), n, n});
  }

  EXPECT_EQ(untouched, (matrix.rows - 4) * n);
  EXPECT_TRUE(same_bits(c, expected));
}

TEST_P(CsrKernel, EmptyMatricesAreFine) {
  const CsrMatrix no_rows{0, 5, {0}, {}, {}};
  const CsrMatrix no_cols{2, 0, {0, 0, 0}, {}, {}};
  std::vector<float> c(6, -7.0F);

  spjit::run_csr(spjit::view_of(no_rows), GetParam(), {nullptr, 3, nullptr, 3, 3});
  spjit::run_csr(spjit::view_of(no_cols), GetParam(), {nullptr, 3, c.data(), 3, 3});

  EXPECT_EQ(c, std::vector<float>(6, 0.0F));
}

INSTANTIATE_TEST_SUITE_P(AllIsas, CsrKernel,
                         testing::Values(HostIsa::avx512, HostIsa::avx2, HostIsa::generic),
                         isa_name);

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

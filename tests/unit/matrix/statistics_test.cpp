#include <gtest/gtest.h>

#include <cmath>

#include "spjit/matrix.hpp"
#include "test_support.hpp"

namespace spjit {
namespace {

TEST(MatrixStatistics, DescribesTheHandMadeMatrix) {
  const MatrixStatistics stats = compute_statistics(test::five_by_five());

  EXPECT_EQ(stats.rows, 5);
  EXPECT_EQ(stats.cols, 5);
  EXPECT_EQ(stats.nnz, 9);
  EXPECT_DOUBLE_EQ(stats.sparsity, 1.0 - 9.0 / 25.0);
  EXPECT_EQ(stats.empty_rows, 1);
  EXPECT_EQ(stats.empty_cols, 0);
  EXPECT_EQ(stats.explicit_zeros, 1);
  EXPECT_EQ(stats.row_nnz_min, 0);
  EXPECT_EQ(stats.row_nnz_max, 5);
  EXPECT_DOUBLE_EQ(stats.row_nnz_mean, 1.8);
  // Rows have 2, 0, 1, 5, 1 entries: squared deviations 0.04 + 3.24 + 0.64 + 10.24 + 0.64 = 14.8.
  EXPECT_DOUBLE_EQ(stats.row_nnz_cv, std::sqrt(14.8 / 5) / 1.8);
}

TEST(MatrixStatistics, HasNoNanForMatricesWithoutEntries) {
  CsrMatrix no_rows;
  no_rows.cols = 7;
  CsrMatrix no_entries;
  no_entries.rows = 2;
  no_entries.cols = 3;
  no_entries.row_ptrs = {0, 0, 0};

  const MatrixStatistics of_no_rows = compute_statistics(no_rows);
  const MatrixStatistics of_no_entries = compute_statistics(no_entries);

  EXPECT_EQ(of_no_rows.empty_cols, 7);
  EXPECT_EQ(of_no_rows.sparsity, 0);
  EXPECT_EQ(of_no_rows.row_nnz_mean, 0);
  EXPECT_EQ(of_no_entries.empty_rows, 2);
  EXPECT_EQ(of_no_entries.sparsity, 1);
  EXPECT_EQ(of_no_entries.row_nnz_cv, 0);
}

TEST(MatrixStatistics, CountsEmptyColumnsOfAVeryWideMatrix) {
  CsrMatrix matrix;
  matrix.rows = 2;
  matrix.cols = 2147483647;
  matrix.row_ptrs = {0, 2, 3};
  matrix.col_idxs = {5, 2147483646, 5};
  matrix.values = {1, 2, 3};

  const MatrixStatistics stats = compute_statistics(matrix);

  EXPECT_EQ(stats.empty_cols, 2147483645);
}

}  // namespace
}  // namespace spjit

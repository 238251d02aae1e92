// estimate_statistics() against groupings.

#include <gtest/gtest.h>

#include <filesystem>

#include "reorder/row_grouping.hpp"
#include "spjit/error.hpp"
#include "spjit/matrix_io.hpp"
#include "test_matrices.hpp"
#include "tests/support/real_matrices.hpp"

namespace spjit {
namespace {

using reorder_test::make_matrix;
using testing_support::random_matrix;

GroupingStatistics grouped(const CsrMatrix& matrix, std::int64_t m1, ReorderAlgorithm algorithm) {
  return compute_statistics(matrix, group_rows(matrix, m1, algorithm));
}

TEST(EstimatedStatistics, ByHand) {
  // Column 0 is in each row, column 1 in half of them: 1 - 0.5^2 of a tile; column 2 in none.
  const CsrMatrix matrix = make_matrix({{0, 1}, {0}, {0, 1}, {0}}, 3);

  const GroupingStatistics statistics = estimate_statistics(matrix, 2);

  EXPECT_EQ(statistics.tiles, 2);
  EXPECT_DOUBLE_EQ(statistics.nnc_mean, 1.75);
  EXPECT_EQ(statistics.nnc_sum, 4);  // 3.5
  EXPECT_DOUBLE_EQ(statistics.fmas_per_load, 6.0 / 4);
}

TEST(EstimatedStatistics, AreExactForTilesOfOneRow) {
  for (const auto& [name, matrix] : reorder_test::random_matrices()) {
    const GroupingStatistics exact = grouped(matrix, 1, ReorderAlgorithm::none);

    const GroupingStatistics statistics = estimate_statistics(matrix, 1);

    EXPECT_EQ(statistics.tiles, exact.tiles) << name;
    EXPECT_EQ(statistics.nnc_sum, exact.nnc_sum) << name;
    EXPECT_NEAR(statistics.nnc_mean, exact.nnc_mean, 1e-9) << name;
    EXPECT_DOUBLE_EQ(statistics.fmas_per_load, 1) << name;
  }
}

TEST(EstimatedStatistics, AreExactWhereEveryRowHasTheSameColumns) {
  const CsrMatrix matrix = make_matrix({{1, 4}, {}, {1, 4}, {1, 4}, {1, 4}, {}}, 6);
  for (const std::int64_t m1 : {1, 2, 3, 4, 100}) {
    const GroupingStatistics exact = grouped(matrix, m1, ReorderAlgorithm::none);

    const GroupingStatistics statistics = estimate_statistics(matrix, m1);

    EXPECT_EQ(statistics.tiles, exact.tiles) << m1;
    EXPECT_EQ(statistics.nnc_sum, exact.nnc_sum) << m1;
    EXPECT_DOUBLE_EQ(statistics.nnc_mean, 2) << m1;
    EXPECT_DOUBLE_EQ(statistics.fmas_per_load, exact.fmas_per_load) << m1;
  }
}

TEST(EstimatedStatistics, OfOneRowAreItsColumns) {
  const GroupingStatistics statistics = estimate_statistics(make_matrix({{0, 2, 5}}, 7), 28);

  EXPECT_EQ(statistics.tiles, 1);
  EXPECT_EQ(statistics.nnc_sum, 3);
  EXPECT_DOUBLE_EQ(statistics.nnc_mean, 3);
  EXPECT_DOUBLE_EQ(statistics.fmas_per_load, 1);
}

TEST(EstimatedStatistics, OfMatricesWithoutEntriesAreZero) {
  for (const CsrMatrix& matrix :
       {CsrMatrix{0, 0, {0}, {}, {}}, CsrMatrix{3, 4, {0, 0, 0, 0}, {}, {}}}) {
    const GroupingStatistics statistics = estimate_statistics(matrix, 28);

    EXPECT_EQ(statistics.tiles, 0);
    EXPECT_EQ(statistics.nnc_sum, 0);
    EXPECT_EQ(statistics.nnc_mean, 0);
    EXPECT_EQ(statistics.fmas_per_load, 0);
  }
}

TEST(EstimatedStatistics, EmptyRowsDoNotCount) {
  const CsrMatrix without = make_matrix({{0, 1}, {1}, {2}, {0}}, 3);
  const CsrMatrix with = make_matrix({{}, {0, 1}, {1}, {}, {2}, {0}, {}}, 3);

  for (const std::int64_t m1 : {1, 2, 4}) {
    EXPECT_EQ(estimate_statistics(with, m1).tiles, estimate_statistics(without, m1).tiles);
    EXPECT_EQ(estimate_statistics(with, m1).nnc_mean, estimate_statistics(without, m1).nnc_mean);
  }
}

TEST(EstimatedStatistics, RefuseTilesWithoutRows) {
  EXPECT_THROW((void)estimate_statistics(make_matrix({{0}}, 1), 0), InvalidArgument);
}

TEST(EstimatedStatistics, AreWithinTwoPercentOfRandomRowsAsTheyCome) {
  for (const double sparsity : {0.5, 0.9, 0.98}) {
    const CsrMatrix matrix = random_matrix(896, 512, sparsity);
    for (const std::int64_t m1 : {4, 14, 28}) {
      const GroupingStatistics exact = grouped(matrix, m1, ReorderAlgorithm::none);

      const GroupingStatistics statistics = estimate_statistics(matrix, m1);

      EXPECT_EQ(statistics.tiles, exact.tiles);
      EXPECT_NEAR(statistics.nnc_mean / exact.nnc_mean, 1, 0.02) << sparsity << " m1 " << m1;
      EXPECT_NEAR(statistics.fmas_per_load / exact.fmas_per_load, 1, 0.02) << sparsity << " " << m1;
    }
  }
}

TEST(EstimatedStatistics, OfATileOfAllRowsAreTooFewByUpToOneInE) {
  // Of columns with one row each a tile has 1 - (1 - 1 / rows)^rows, at least 1 - 1 / e.
  const CsrMatrix matrix = make_matrix({{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}, 8);
  const double exact = grouped(matrix, 8, ReorderAlgorithm::none).nnc_mean;

  const double estimate = estimate_statistics(matrix, 8).nnc_mean;

  EXPECT_LT(estimate, exact);
  EXPECT_GT(estimate, (1 - 1 / 2.7183) * exact);
}

TEST(EstimatedStatistics, RegroupingRealRowsFindsUpToFortyPercentFewerColumns) {
  int compared = 0;
  for (const std::filesystem::path& file : testing_support::matrix_files("dlmc")) {
    const CsrMatrix matrix = load_matrix(file);
    // Of a matrix with next to no entries all rows go into one tile: see above.
    if (matrix.nnz() > 100'000 || matrix.nnz() < 1000) continue;
    for (const std::int64_t m1 : {8, 28}) {
      const GroupingStatistics exact = grouped(matrix, m1, ReorderAlgorithm::similarity);

      const GroupingStatistics statistics = estimate_statistics(matrix, m1);

      EXPECT_EQ(statistics.tiles, exact.tiles) << file;
      EXPECT_LE(exact.nnc_mean, statistics.nnc_mean) << file << " m1 " << m1;
      EXPECT_GE(exact.nnc_mean, 0.6 * statistics.nnc_mean) << file << " m1 " << m1;
    }
    ++compared;
  }
  if (compared == 0) GTEST_SKIP() << testing_support::data_directory() << " has no dlmc folder";
}

}  // namespace
}  // namespace spjit

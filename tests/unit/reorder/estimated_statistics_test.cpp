// EstimatedGrouping against groupings.

#include <gtest/gtest.h>

#include <filesystem>

#include "reorder/row_grouping.hpp"
#include "spjit/error.hpp"
#include "spjit/matrix_io.hpp"
#include "test_matrices.hpp"
#include "tests/support/files/real_matrices.hpp"

namespace spjit {
namespace {

using reorder_test::make_matrix;
using testing_support::random_matrix;

GroupingStatistics grouped(const CsrMatrix& matrix, std::int64_t m1, ReorderAlgorithm algorithm) {
  return compute_statistics(matrix, group_rows(matrix, m1, algorithm));
}

TEST(EstimatedStatistics, ByHand) {
  // Rows alike become neighbours: {0, 1} twice in a tile, {0} twice in the other one.
  const CsrMatrix matrix = make_matrix({{0, 1}, {0}, {0, 1}, {0}}, 3);

  const GroupingStatistics statistics = EstimatedGrouping(matrix).statistics(2);

  EXPECT_EQ(statistics.tiles, 2);
  EXPECT_EQ(statistics.nnc_sum, 3);
  EXPECT_DOUBLE_EQ(statistics.nnc_mean, 1.5);
  EXPECT_DOUBLE_EQ(statistics.fmas_per_load, 2);
}

TEST(EstimatedStatistics, FindBlocksOfRowsThatAreFarApart) {
  // Eight kinds of rows, each sixteen times, taking turns.
  std::vector<std::vector<std::int32_t>> rows;
  for (std::int32_t row = 0; row < 128; ++row) {
    const std::int32_t kind = row % 8;
    rows.push_back({kind * 10, kind * 10 + 3, kind * 10 + 7});
  }

  const GroupingStatistics statistics = EstimatedGrouping(make_matrix(rows, 80)).statistics(16);

  EXPECT_EQ(statistics.tiles, 8);
  EXPECT_EQ(statistics.nnc_sum, 24);
  EXPECT_DOUBLE_EQ(statistics.fmas_per_load, 16);
}

TEST(EstimatedStatistics, AreExactForTilesOfOneRow) {
  for (const auto& [name, matrix] : reorder_test::random_matrices()) {
    const GroupingStatistics exact = grouped(matrix, 1, ReorderAlgorithm::none);

    const GroupingStatistics statistics = EstimatedGrouping(matrix).statistics(1);

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

    const GroupingStatistics statistics = EstimatedGrouping(matrix).statistics(m1);

    EXPECT_EQ(statistics.tiles, exact.tiles) << m1;
    EXPECT_EQ(statistics.nnc_sum, exact.nnc_sum) << m1;
    EXPECT_DOUBLE_EQ(statistics.nnc_mean, 2) << m1;
    EXPECT_DOUBLE_EQ(statistics.fmas_per_load, exact.fmas_per_load) << m1;
  }
}

TEST(EstimatedStatistics, OfOneRowAreItsColumns) {
  const GroupingStatistics statistics =
      EstimatedGrouping(make_matrix({{0, 2, 5}}, 7)).statistics(28);

  EXPECT_EQ(statistics.tiles, 1);
  EXPECT_EQ(statistics.nnc_sum, 3);
  EXPECT_DOUBLE_EQ(statistics.nnc_mean, 3);
  EXPECT_DOUBLE_EQ(statistics.fmas_per_load, 1);
}

TEST(EstimatedStatistics, OfMatricesWithoutEntriesAreZero) {
  for (const CsrMatrix& matrix :
       {CsrMatrix{0, 0, {0}, {}, {}}, CsrMatrix{3, 4, {0, 0, 0, 0}, {}, {}}}) {
    const GroupingStatistics statistics = EstimatedGrouping(matrix).statistics(28);

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
    EXPECT_EQ(EstimatedGrouping(with).statistics(m1).tiles,
              EstimatedGrouping(without).statistics(m1).tiles);
    EXPECT_EQ(EstimatedGrouping(with).statistics(m1).nnc_mean,
              EstimatedGrouping(without).statistics(m1).nnc_mean);
  }
}

TEST(EstimatedStatistics, RefuseTilesWithoutRows) {
  EXPECT_THROW((void)EstimatedGrouping(make_matrix({{0}}, 1)).statistics(0), InvalidArgument);
}

TEST(EstimatedStatistics, OfRandomRowsAreBetweenRowsAsTheyComeAndRegrouped) {
  for (const double sparsity : {0.5, 0.9, 0.98}) {
    const CsrMatrix matrix = random_matrix(896, 512, sparsity);
    for (const std::int64_t m1 : {4, 14, 28}) {
      const GroupingStatistics as_they_come = grouped(matrix, m1, ReorderAlgorithm::none);
      const GroupingStatistics regrouped = grouped(matrix, m1, ReorderAlgorithm::similarity);

      const GroupingStatistics statistics = EstimatedGrouping(matrix).statistics(m1);

      EXPECT_EQ(statistics.tiles, as_they_come.tiles);
      EXPECT_LE(statistics.nnc_mean, 1.01 * as_they_come.nnc_mean) << sparsity << " m1 " << m1;
      EXPECT_GE(statistics.nnc_mean, regrouped.nnc_mean) << sparsity << " m1 " << m1;
    }
  }
}

TEST(EstimatedStatistics, OfLongMatricesComeFromSomeOfTheirTiles) {
  // 12 million entries: every sixtieth tile is looked at.
  const CsrMatrix matrix = random_matrix(40'000, 600, 0.5);
  const GroupingStatistics exact = grouped(matrix, 28, ReorderAlgorithm::none);

  const GroupingStatistics statistics = EstimatedGrouping(matrix).statistics(28);

  EXPECT_EQ(statistics.tiles, exact.tiles);
  EXPECT_NEAR(statistics.nnc_mean / exact.nnc_mean, 1, 0.02);
}

TEST(EstimatedStatistics, OfATileOfAllRowsAreExact) {
  const CsrMatrix matrix = make_matrix({{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}, 8);

  EXPECT_EQ(EstimatedGrouping(matrix).statistics(8).nnc_mean, 8);
  EXPECT_EQ(EstimatedGrouping(matrix).statistics(100).nnc_sum, 8);
}

TEST(EstimatedStatistics, RegroupingRealRowsFindsUpToFortyPercentFewerColumns) {
  int compared = 0;
  for (const std::filesystem::path& file : testing_support::matrix_files("dlmc")) {
    const CsrMatrix matrix = load_matrix(file);
    if (matrix.nnz() > 100'000 || matrix.nnz() < 1000) continue;
    for (const std::int64_t m1 : {8, 28}) {
      const GroupingStatistics exact = grouped(matrix, m1, ReorderAlgorithm::similarity);

      const GroupingStatistics statistics = EstimatedGrouping(matrix).statistics(m1);

      EXPECT_EQ(statistics.tiles, exact.tiles) << file;
      EXPECT_LE(exact.nnc_mean, 1.03 * statistics.nnc_mean) << file << " m1 " << m1;
      EXPECT_GE(exact.nnc_mean, 0.6 * statistics.nnc_mean) << file << " m1 " << m1;
    }
    ++compared;
  }
  if (compared == 0) GTEST_SKIP() << testing_support::data_directory() << " has no dlmc folder";
}

}  // namespace
}  // namespace spjit

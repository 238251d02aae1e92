#include "reorder/row_grouping.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "reference_grouping.hpp"
#include "spjit/error.hpp"
#include "test_matrices.hpp"

namespace spjit {
namespace {

using reorder_test::make_matrix;
using testing::ElementsAre;

constexpr ReorderAlgorithm k_algorithms[] = {ReorderAlgorithm::none, ReorderAlgorithm::balanced,
                                             ReorderAlgorithm::similarity};

reorder::RowTiles to_tiles(const RowGrouping& grouping) {
  reorder::RowTiles tiles;
  for (std::size_t tile = 0; tile + 1 < grouping.tile_ptrs.size(); ++tile) {
    tiles.emplace_back(grouping.rows.begin() + grouping.tile_ptrs[tile],
                       grouping.rows.begin() + grouping.tile_ptrs[tile + 1]);
  }
  return tiles;
}

/// Everything RowGrouping promises, for any algorithm.
void expect_valid(const CsrMatrix& matrix, const RowGrouping& grouping, std::int64_t m1) {
  const std::vector<std::int32_t> rows = reference::rows_by_nnz(matrix);
  const auto count = static_cast<std::int64_t>(rows.size());
  EXPECT_EQ(grouping.m1, m1);
  EXPECT_EQ(grouping.tiles(), count == 0 ? 0 : (count - 1) / m1 + 1);
  EXPECT_EQ(grouping.tile_ptrs.front(), 0);
  EXPECT_EQ(grouping.tile_ptrs.back(), count);
  for (const auto& tile : to_tiles(grouping)) {
    EXPECT_FALSE(tile.empty());
    EXPECT_LE(static_cast<std::int64_t>(tile.size()), m1);
    EXPECT_TRUE(std::is_sorted(tile.begin(), tile.end()));
  }
  EXPECT_THAT(grouping.rows, testing::UnorderedElementsAreArray(rows));
  const std::vector<std::int32_t> empty_rows = grouping.empty_rows.list(0, matrix.rows);
  EXPECT_EQ(std::ssize(empty_rows), matrix.rows - count);
  EXPECT_TRUE(std::is_sorted(empty_rows.begin(), empty_rows.end()));
  for (const std::int32_t row : empty_rows) {
    EXPECT_TRUE(reference::columns_of(matrix, row).empty());
  }
}

TEST(GroupRows, NoneKeepsTheOrderAndLeavesEmptyRowsOut) {
  const CsrMatrix matrix = make_matrix({{0, 1, 2}, {}, {3}, {0}, {1}, {}, {2}}, 4);

  const RowGrouping grouping = group_rows(matrix, 2, ReorderAlgorithm::none);

  EXPECT_THAT(grouping.rows, ElementsAre(0, 2, 3, 4, 6));
  EXPECT_THAT(grouping.tile_ptrs, ElementsAre(0, 2, 4, 5));
  EXPECT_THAT(grouping.empty_rows.ranges(), ElementsAre(RowRange{1, 2}, RowRange{5, 6}));
}

TEST(GroupRows, BalancedAndSimilarityFindTheRowsThatMatch) {
  const CsrMatrix matrix = make_matrix({{0, 1}, {2, 3}, {}, {2, 3}, {0, 1}}, 4);

  for (const auto algorithm : {ReorderAlgorithm::balanced, ReorderAlgorithm::similarity}) {
    const RowGrouping grouping = group_rows(matrix, 2, algorithm);

    EXPECT_EQ(to_tiles(grouping), (reorder::RowTiles{{0, 4}, {1, 3}})) << to_string(algorithm);
    EXPECT_THAT(grouping.empty_rows.ranges(), ElementsAre(RowRange{2, 3}));
  }
}

TEST(GroupRows, HoldsEveryRowOnceOnRandomMatrices) {
  for (const auto& [name, matrix] : reorder_test::random_matrices()) {
    for (const auto algorithm : k_algorithms) {
      for (const std::int64_t m1 : {1, 2, 3, 4, 9, 14, 30, 59, 60, 61, 1000}) {
        SCOPED_TRACE(name + " " + std::string(to_string(algorithm)) + " " + std::to_string(m1));

        const RowGrouping grouping = group_rows(matrix, m1, algorithm);

        expect_valid(matrix, grouping, m1);
      }
    }
  }
}

TEST(GroupRows, GivesTheSameGroupingEveryTime) {
  for (const auto& [name, matrix] : reorder_test::random_matrices()) {
    for (const auto algorithm : k_algorithms) {
      const RowGrouping first = group_rows(matrix, 6, algorithm);
      const RowGrouping second = group_rows(matrix, 6, algorithm);

      EXPECT_EQ(first.rows, second.rows) << name;
      EXPECT_EQ(first.tile_ptrs, second.tile_ptrs) << name;
    }
  }
}

TEST(GroupRows, DoesNotDependOnTheOrderOfColumnsInARow) {
  for (const auto& [name, matrix] : reorder_test::random_matrices()) {
    CsrMatrix reversed = matrix;
    for (std::size_t row = 0; row + 1 < matrix.row_ptrs.size(); ++row) {
      std::reverse(reversed.col_idxs.begin() + matrix.row_ptrs[row],
                   reversed.col_idxs.begin() + matrix.row_ptrs[row + 1]);
    }
    for (const auto algorithm : k_algorithms) {
      EXPECT_EQ(group_rows(reversed, 6, algorithm).rows, group_rows(matrix, 6, algorithm).rows)
          << name;
    }
  }
}

TEST(GroupRows, TakesMatricesAtTheEdge) {
  const std::int32_t last = std::numeric_limits<std::int32_t>::max() - 1;
  const std::vector<CsrMatrix> matrices = {
      make_matrix({}, 0),                                                  // nothing
      make_matrix({}, 5),                                                  // no rows
      make_matrix({{}, {}, {}}, 0),                                        // no columns
      make_matrix({{}, {}, {}}, 5),                                        // all rows empty
      make_matrix({{0, 3}}, 4),                                            // one row
      make_matrix({{0}, {0, 1, 2, 3}, {3}, {}, {0, 1, 2, 3}}, 4),          // dense rows
      make_matrix({{last}, {0, last}, {5}, {0}}, std::int64_t{last} + 1),  // the widest matrix
  };
  for (const CsrMatrix& matrix : matrices) {
    for (const auto algorithm : k_algorithms) {
      for (const std::int64_t m1 : {std::int64_t{1}, std::int64_t{2}, std::int64_t{128},
                                    std::numeric_limits<std::int64_t>::max()}) {
        SCOPED_TRACE(std::to_string(matrix.rows) + " x " + std::to_string(matrix.cols) + " " +
                     std::string(to_string(algorithm)) + " " + std::to_string(m1));

        const RowGrouping grouping = group_rows(matrix, m1, algorithm);

        expect_valid(matrix, grouping, m1);
      }
    }
  }
}

TEST(GroupRows, RefusesM1BelowOne) {
  const CsrMatrix matrix = make_matrix({{0}}, 1);

  for (const auto algorithm : k_algorithms) {
    EXPECT_THROW(static_cast<void>(group_rows(matrix, 0, algorithm)), InvalidArgument);
    EXPECT_THROW(static_cast<void>(group_rows(matrix, -3, algorithm)), InvalidArgument);
  }
}

TEST(GroupRows, RefusesAnAlgorithmThatIsNone) {
  const CsrMatrix matrix = make_matrix({{0}}, 1);

  EXPECT_THROW(static_cast<void>(group_rows(matrix, 2, static_cast<ReorderAlgorithm>(7))),
               InvalidArgument);
}

TEST(GroupRows, SimilarityNeedsFewestLoadsOnRandomMatrices) {
  GenerateOptions options;
  options.rows = 256;
  options.cols = 128;
  options.sparsity = 0.9;
  for (const auto pattern : {MatrixPattern::uniform, MatrixPattern::uneven_rows}) {
    options.pattern = pattern;
    const CsrMatrix matrix = generate_matrix(options);
    const auto loads = [&](ReorderAlgorithm algorithm) {
      return compute_statistics(matrix, group_rows(matrix, 14, algorithm)).nnc_sum;
    };

    EXPECT_LT(loads(ReorderAlgorithm::similarity), loads(ReorderAlgorithm::balanced));
    EXPECT_LT(loads(ReorderAlgorithm::balanced), loads(ReorderAlgorithm::none));
  }
}

TEST(GroupingStatistics, AreThoseWorkedOutByHand) {
  // Tiles {0, 1} and {3}: nnz 5 and 1, columns {0, 1, 2} and {3}. Mean nnz 3, deviation 2.
  const CsrMatrix matrix = make_matrix({{0, 1}, {0, 1, 2}, {}, {3}}, 4);

  const auto statistics = compute_statistics(matrix, group_rows(matrix, 2, ReorderAlgorithm::none));

  EXPECT_EQ(statistics.tiles, 2);
  EXPECT_EQ(statistics.nnc_sum, 4);
  EXPECT_EQ(statistics.nnc_max, 3);
  EXPECT_DOUBLE_EQ(statistics.nnc_mean, 2.0);
  EXPECT_EQ(statistics.tile_nnz_min, 1);
  EXPECT_EQ(statistics.tile_nnz_max, 5);
  EXPECT_DOUBLE_EQ(statistics.tile_nnz_cv, 2.0 / 3.0);
  EXPECT_DOUBLE_EQ(statistics.fmas_per_load, 6.0 / 4.0);
}

TEST(GroupingStatistics, OfEqualTilesHaveNoVariation) {
  const CsrMatrix matrix = make_matrix({{0, 1}, {2, 3}, {1, 2}}, 4);

  const auto statistics = compute_statistics(matrix, group_rows(matrix, 1, ReorderAlgorithm::none));

  EXPECT_EQ(statistics.tile_nnz_cv, 0.0);
  EXPECT_EQ(statistics.fmas_per_load, 1.0);
}

TEST(GroupingStatistics, OfNoTilesAreZero) {
  const CsrMatrix matrix = make_matrix({{}, {}}, 3);

  const auto statistics =
      compute_statistics(matrix, group_rows(matrix, 4, ReorderAlgorithm::balanced));

  EXPECT_EQ(statistics.tiles, 0);
  EXPECT_EQ(statistics.nnc_sum, 0);
  EXPECT_EQ(statistics.nnc_mean, 0.0);
  EXPECT_EQ(statistics.tile_nnz_cv, 0.0);
  EXPECT_EQ(statistics.fmas_per_load, 0.0);
}

}  // namespace
}  // namespace spjit

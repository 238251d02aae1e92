#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference_grouping.hpp"
#include "reorder/algorithms.hpp"
#include "test_matrices.hpp"

namespace spjit {
namespace {

using reorder::GroupingLimits;
using reorder::RowTiles;
using reorder_test::make_matrix;

TEST(Similarity, GrowsByTheSmallestShareOfNewColumns) {
  // Row 0 = {0} starts. Shares of new columns: row 1 1/1, row 2 1/2, row 3 2/3, row 4 3/4. Row 2
  // joins: the tile has {0, 1}. Row 3 = {0, 1, 2} has 1/3 new, row 4 = {0, 5, 6, 7} 3/4. Row 1 =
  // {9} starts the next tile; nothing shares a column with it, so the next free row joins.
  const CsrMatrix matrix = make_matrix({{0}, {9}, {0, 1}, {0, 1, 2}, {0, 5, 6, 7}}, 10);

  const RowTiles tiles = reorder::group_similar(matrix, reference::rows_by_nnz(matrix), 3);

  EXPECT_EQ(tiles, (RowTiles{{0, 2, 3}, {1, 4}}));
}

TEST(Similarity, PrefersTheLargerOverlapAmongEqualShares) {
  // Row 0 = {0, 1} starts. Half of row 1's columns are new and half of row 2's; row 2 shares two.
  const CsrMatrix matrix = make_matrix({{0, 1}, {0, 2}, {0, 1, 3, 4}}, 5);

  const RowTiles tiles = reorder::group_similar(matrix, reference::rows_by_nnz(matrix), 2);

  EXPECT_EQ(tiles, (RowTiles{{0, 2}, {1}}));
}

TEST(Similarity, EqualsTheDefinitionOnRandomMatrices) {
  for (const auto& [name, matrix] : reorder_test::random_matrices()) {
    for (const std::int64_t m1 : {1, 2, 3, 5, 8, 28, 60, 100}) {
      const auto rows = reference::rows_by_nnz(matrix);

      const RowTiles tiles = reorder::group_similar(matrix, rows, m1);

      EXPECT_EQ(tiles, reference::group_similar(matrix, static_cast<std::size_t>(m1)))
          << name << ", m1 = " << m1;
    }
  }
}

TEST(Similarity, EqualsTheDefinitionBeyondOneChunkOfTheScan) {
  GenerateOptions options;
  options.rows = 400;
  options.cols = 48;
  options.sparsity = 0.8;
  options.pattern = MatrixPattern::uneven_rows;
  const CsrMatrix matrix = generate_matrix(options);

  const RowTiles tiles = reorder::group_similar(matrix, reference::rows_by_nnz(matrix), 14);

  EXPECT_EQ(tiles, reference::group_similar(matrix, 14));
}

TEST(Similarity, ShardsHoldEveryRowOnceInAsManyTilesAsWithout) {
  for (const auto& [name, matrix] : reorder_test::random_matrices()) {
    const auto rows = reference::rows_by_nnz(matrix);
    for (const std::int64_t m1 : {1, 3, 8, 28}) {
      const GroupingLimits few_tiles_a_shard{200, 0};

      const RowTiles tiles = reorder::group_similar(matrix, rows, m1, few_tiles_a_shard);

      std::vector<std::int32_t> seen;
      for (const auto& tile : tiles) {
        EXPECT_FALSE(tile.empty());
        EXPECT_LE(static_cast<std::int64_t>(tile.size()), m1);
        seen.insert(seen.end(), tile.begin(), tile.end());
      }
      EXPECT_EQ(tiles.size(),
                reference::group_similar(matrix, static_cast<std::size_t>(m1)).size());
      EXPECT_THAT(seen, testing::UnorderedElementsAreArray(rows)) << name << ", m1 = " << m1;
    }
  }
}

}  // namespace
}  // namespace spjit

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

TEST(Balanced, JoinsRowsThatShareColumns) {
  // T = 2, bound 8 / 2 = 4. Rows 0 and 1 open the tiles (an empty tile's union is smallest); row 2
  // = {0, 1} adds nothing to row 0's tile, row 3 nothing to row 1's.
  const CsrMatrix matrix = make_matrix({{0, 1}, {2, 3}, {0, 1}, {2, 3}}, 4);

  const RowTiles tiles = reorder::group_balanced(matrix, reference::rows_by_nnz(matrix), 2);

  EXPECT_EQ(tiles, (RowTiles{{0, 2}, {1, 3}}));
}

TEST(Balanced, GoesByAscendingNnz) {
  // By nnz: 2, 1, 0. T = 2, bound 6 / 2 = 3. Row 2 = {3} opens tile 0. Row 1 = {0, 1}: union 3 with
  // tile 0, 2 with the empty tile 1. Row 0 = {0, 1, 2}: union 4 with tile 0, 3 with tile 1.
  const CsrMatrix matrix = make_matrix({{0, 1, 2}, {0, 1}, {3}}, 4);

  const RowTiles tiles = reorder::group_balanced(matrix, reference::rows_by_nnz(matrix), 2);

  EXPECT_EQ(tiles, (RowTiles{{2}, {1, 0}}));
}

TEST(Balanced, PassesOverTilesAtTheNnzBound) {
  // T = 2, bound 4 / 2 = 2. Rows 0 and 1 go to tile 0 (union 1 in both tiles, lower number), which
  // has 2 nonzeros then and is passed over although it has room for a third row.
  const CsrMatrix matrix = make_matrix({{0}, {0}, {0}, {0}}, 1);

  const RowTiles tiles = reorder::group_balanced(matrix, reference::rows_by_nnz(matrix), 3);

  EXPECT_EQ(tiles, (RowTiles{{0, 1}, {2, 3}}));
}

TEST(Balanced, FallsBackToTheSmallestUnionOnceNoLightTileHasRoom) {
  // T = 6, bound 48 / 6. Sixteen rows {0} fill tiles 0 to 3, which stay light. Two rows each make
  // tiles 4 (columns 1 to 4) and 5 (5 to 8) heavy, with room for two more. Rows 20 and 21 = {5 ..
  // 8} make a union of 8 in tile 4 and of 4 in tile 5; rows 22 and 23 have tile 4 left.
  const std::vector<std::int32_t> low = {1, 2, 3, 4};
  const std::vector<std::int32_t> high = {5, 6, 7, 8};
  std::vector<std::vector<std::int32_t>> rows(16, {0});
  rows.insert(rows.end(), {low, high, low, high, high, high, low, low});
  const CsrMatrix matrix = make_matrix(rows, 9);

  const RowTiles tiles = reorder::group_balanced(matrix, reference::rows_by_nnz(matrix), 4);

  ASSERT_EQ(tiles.size(), 6U);
  EXPECT_EQ(tiles[4], (std::vector<std::int32_t>{16, 18, 22, 23}));
  EXPECT_EQ(tiles[5], (std::vector<std::int32_t>{17, 19, 20, 21}));
}

TEST(Balanced, EqualsTheDefinitionOnRandomMatrices) {
  for (const auto& [name, matrix] : reorder_test::random_matrices()) {
    for (const std::int64_t m1 : {1, 2, 3, 5, 8, 28, 60, 100}) {
      const auto rows = reference::rows_by_nnz(matrix);

      const RowTiles tiles = reorder::group_balanced(matrix, rows, m1);

      EXPECT_EQ(tiles, reference::group_balanced(matrix, static_cast<std::size_t>(m1)))
          << name << ", m1 = " << m1;
    }
  }
}

TEST(Balanced, ShardsHoldEveryRowOnceInAsManyTilesAsWithout) {
  for (const auto& [name, matrix] : reorder_test::random_matrices()) {
    const auto rows = reference::rows_by_nnz(matrix);
    for (const std::int64_t m1 : {1, 3, 8, 28}) {
      const GroupingLimits one_tile_a_shard{1, 0};

      const RowTiles tiles = reorder::group_balanced(matrix, rows, m1, one_tile_a_shard);

      std::vector<std::int32_t> seen;
      for (const auto& tile : tiles) {
        EXPECT_FALSE(tile.empty());
        EXPECT_LE(static_cast<std::int64_t>(tile.size()), m1);
        seen.insert(seen.end(), tile.begin(), tile.end());
      }
      EXPECT_EQ(tiles.size(),
                reference::group_balanced(matrix, static_cast<std::size_t>(m1)).size());
      EXPECT_THAT(seen, testing::UnorderedElementsAreArray(rows)) << name << ", m1 = " << m1;
    }
  }
}

}  // namespace
}  // namespace spjit

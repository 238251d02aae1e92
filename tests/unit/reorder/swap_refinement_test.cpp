#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference_grouping.hpp"
#include "reorder/algorithms.hpp"
#include "test_matrices.hpp"

namespace spjit {
namespace {

using reorder::RefinementLimits;
using reorder::RowTiles;
using reorder_test::make_matrix;

TEST(SwapRefinement, MakesTheSwapThatSavesColumns) {
  // Columns 4 + 4; with rows 1 and 2 swapped 2 + 2.
  const CsrMatrix matrix = make_matrix({{0, 1}, {2, 3}, {0, 1}, {2, 3}}, 4);

  const RowTiles tiles = reorder::refine_by_swaps(matrix, {{0, 1}, {2, 3}});

  EXPECT_EQ(reference::nnc_sum(matrix, tiles), 4);
}

TEST(SwapRefinement, MakesTheSwapThatSavesMost) {
  // 6 + 6 columns. Row 0 for row 2: 3 + 6. Row 0 for row 3: 3 + 5.
  const CsrMatrix matrix = make_matrix({{0, 1, 2}, {7, 8, 9}, {7, 8}, {7, 8, 9}, {0, 1, 2}}, 10);
  const RefinementLimits one_pass{512, 1, 1 << 20};

  const RowTiles tiles = reorder::refine_by_swaps(matrix, {{0, 1}, {2, 3, 4}}, one_pass);

  EXPECT_EQ(tiles, (RowTiles{{3, 1}, {2, 0, 4}}));
}

TEST(SwapRefinement, CountsColumnsThatStayCoveredThroughTheSwap) {
  // Each row alone has columns 0 and 1 in its tile, and the other row would bring them back.
  const CsrMatrix matrix = make_matrix({{0, 1}, {0, 1}}, 2);

  const RowTiles tiles = reorder::refine_by_swaps(matrix, {{0}, {1}});

  EXPECT_EQ(tiles, (RowTiles{{0}, {1}}));
}

TEST(SwapRefinement, LeavesABlockOverTheWorkLimitAlone) {
  const CsrMatrix matrix = make_matrix({{0, 1}, {2, 3}, {0, 1}, {2, 3}}, 4);
  const RefinementLimits no_work{512, 2, 0};

  const RowTiles tiles = reorder::refine_by_swaps(matrix, {{0, 1}, {2, 3}}, no_work);

  EXPECT_EQ(tiles, (RowTiles{{0, 1}, {2, 3}}));
}

TEST(SwapRefinement, NeverAddsColumnsAndKeepsTileSizesAndRows) {
  for (const auto& [name, matrix] : reorder_test::random_matrices()) {
    for (const std::int64_t block_rows : {1, 20, 512}) {
      for (const std::int64_t m1 : {1, 2, 5, 14, 100}) {
        const auto rows = reference::rows_by_nnz(matrix);
        const RowTiles before = reorder::group_similar(matrix, rows, m1);

        const RowTiles after = reorder::refine_by_swaps(matrix, before, {block_rows, 3, 1 << 20});

        std::vector<std::int32_t> seen;
        ASSERT_EQ(after.size(), before.size());
        for (std::size_t tile = 0; tile < after.size(); ++tile) {
          EXPECT_EQ(after[tile].size(), before[tile].size());
          seen.insert(seen.end(), after[tile].begin(), after[tile].end());
        }
        EXPECT_THAT(seen, testing::UnorderedElementsAreArray(rows)) << name;
        EXPECT_LE(reference::nnc_sum(matrix, after), reference::nnc_sum(matrix, before)) << name;
      }
    }
  }
}

TEST(SwapRefinement, EndsWhereNoSwapSavesAColumn) {
  GenerateOptions options;
  options.rows = 24;
  options.cols = 20;
  options.sparsity = 0.7;
  const CsrMatrix matrix = generate_matrix(options);
  const RowTiles start = reorder::group_similar(matrix, reference::rows_by_nnz(matrix), 4);

  const RowTiles tiles = reorder::refine_by_swaps(matrix, start, {512, 100, 1 << 20});

  const std::int64_t best = reference::nnc_sum(matrix, tiles);
  for (std::size_t left = 0; left < tiles.size(); ++left) {
    for (std::size_t right = left + 1; right < tiles.size(); ++right) {
      for (std::size_t i = 0; i < tiles[left].size(); ++i) {
        for (std::size_t j = 0; j < tiles[right].size(); ++j) {
          RowTiles swapped = tiles;
          std::swap(swapped[left][i], swapped[right][j]);
          EXPECT_GE(reference::nnc_sum(matrix, swapped), best);
        }
      }
    }
  }
}

}  // namespace
}  // namespace spjit

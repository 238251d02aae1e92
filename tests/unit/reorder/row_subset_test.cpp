#include "reorder/row_subset.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test_matrices.hpp"

namespace spjit {
namespace {

using reorder::ColumnLists;
using reorder::RowSubset;
using reorder_test::make_matrix;
using testing::ElementsAre;

TEST(RowSubset, TakesRowsInTheGivenOrderAndNumbersTheirColumnsAscending) {
  const CsrMatrix matrix = make_matrix({{5, 2}, {0, 1}, {5}, {7, 5}}, 8);

  const RowSubset subset = reorder::take_rows(matrix, std::vector<std::int32_t>{3, 0});

  EXPECT_THAT(subset.matrix_rows, ElementsAre(3, 0));
  EXPECT_THAT(subset.row_ptrs, ElementsAre(0, 2, 4));
  EXPECT_THAT(subset.col_idxs, ElementsAre(2, 1, 1, 0));
  EXPECT_THAT(subset.col_counts, ElementsAre(1, 2, 1));
  EXPECT_EQ(subset.cols, 3);
}

TEST(RowSubset, NumbersColumnsAlikeInAVeryWideMatrix) {
  const CsrMatrix matrix = make_matrix({{2147483646, 2}, {0}, {7, 2147483646}}, 2147483647);

  const RowSubset subset = reorder::take_rows(matrix, std::vector<std::int32_t>{0, 2});

  EXPECT_THAT(subset.col_idxs, ElementsAre(2, 0, 1, 2));
  EXPECT_THAT(subset.col_counts, ElementsAre(1, 1, 2));
}

TEST(RowSubset, OfNoRowsIsEmpty) {
  const RowSubset subset = reorder::take_rows(make_matrix({{0}}, 1), {});

  EXPECT_EQ(subset.rows(), 0);
  EXPECT_EQ(subset.nnz(), 0);
  EXPECT_EQ(subset.cols, 0);
}

TEST(ColumnLists, ListTheRowsOfEachColumn) {
  const CsrMatrix matrix = make_matrix({{0, 1}, {1}, {2, 1}}, 3);
  const RowSubset subset = reorder::take_rows(matrix, std::vector<std::int32_t>{0, 1, 2});

  const ColumnLists lists = reorder::list_rows_by_column(subset);

  EXPECT_THAT(lists.list(0), ElementsAre(0));
  EXPECT_THAT(lists.list(1), ElementsAre(0, 1, 2));
  EXPECT_THAT(lists.list(2), ElementsAre(2));
}

TEST(ColumnLists, ForgetWhatIsNotKept) {
  const CsrMatrix matrix = make_matrix({{0}, {0}, {0}}, 1);
  const RowSubset subset = reorder::take_rows(matrix, std::vector<std::int32_t>{0, 1, 2});
  ColumnLists lists = reorder::list_rows_by_column(subset);
  std::vector<std::int32_t> visited;

  lists.visit_kept(
      0, [](std::int32_t row) { return row != 0; },
      [&](std::int32_t row) { visited.push_back(row); });

  EXPECT_THAT(visited, testing::UnorderedElementsAre(1, 2));
  EXPECT_THAT(lists.list(0), testing::UnorderedElementsAre(1, 2));
}

}  // namespace
}  // namespace spjit

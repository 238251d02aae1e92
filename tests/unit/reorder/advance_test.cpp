#include "reorder/advance.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "spjit/matrix.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::CsrMatrix;
using spjit::rows_by_advance;
using spjit::testing_support::index;
using testing::ElementsAre;

std::vector<std::int32_t> by_length(const CsrMatrix& matrix) {
  std::vector<std::int32_t> rows(index(matrix.rows));
  std::iota(rows.begin(), rows.end(), 0);
  std::ranges::stable_sort(rows, std::ranges::greater(), [&](std::int32_t row) {
    return matrix.row_ptrs[index(row) + 1] - matrix.row_ptrs[index(row)];
  });
  return rows;
}

std::vector<std::int32_t> ordered(const CsrMatrix& matrix, std::int64_t lanes) {
  return rows_by_advance({matrix.row_ptrs, matrix.col_idxs, matrix.cols}, by_length(matrix), lanes);
}

/// Rows of such columns, of 80 each.
CsrMatrix matrix_of(const std::vector<std::vector<std::int32_t>>& rows) {
  CsrMatrix matrix{std::ssize(rows), 80, {0}, {}, {}};
  for (const std::vector<std::int32_t>& row : rows) {
    matrix.col_idxs.insert(matrix.col_idxs.end(), row.begin(), row.end());
    matrix.values.resize(matrix.col_idxs.size(), 1.0F);
    matrix.row_ptrs.push_back(std::ssize(matrix.col_idxs));
  }
  return matrix;
}

TEST(RowsByAdvance, HasEveryRowOnce) {
  for (const std::int64_t lanes : {8, 16}) {
    for (const std::int64_t rows : {0, 1, 7, 150, 300}) {
      std::vector<std::int32_t> all =
          ordered(spjit::testing_support::random_matrix(rows, 60, 0.8), lanes);

      std::ranges::sort(all);

      ASSERT_EQ(std::ssize(all), rows);
      for (std::int64_t row = 0; row < rows; ++row) EXPECT_EQ(all[index(row)], row);
    }
  }
}

TEST(RowsByAdvance, GroupsRowsWhoseEntriesAreAsFar) {
  const std::vector<std::int32_t> early = {0, 2, 5};
  const std::vector<std::int32_t> late = {71, 74, 79};

  EXPECT_THAT(ordered(matrix_of({early, late, late, early}), 2), ElementsAre(0, 3, 1, 2));
  EXPECT_THAT(ordered(matrix_of({early, late, late, early, late}), 3), ElementsAre(0, 3, 1, 2, 4));
}

TEST(RowsByAdvance, LooksAtTheBandOfAllRowsOfAGroup) {
  // 3 is farther from 0 than 2 is, but not from the band of 0 and 1.
  const CsrMatrix matrix = matrix_of({{40, 41}, {20, 21}, {60, 61}, {10, 11}});

  EXPECT_THAT(ordered(matrix, 3), ElementsAre(0, 1, 3, 2));
}

TEST(RowsByAdvance, TakesTheLongestOfSeveralThatAreAlike) {
  const CsrMatrix matrix = matrix_of({{0}, {0, 1, 2}, {0, 1}, {0, 1, 2}, {0, 1, 2}});

  EXPECT_THAT(ordered(matrix, 2), ElementsAre(1, 3, 4, 2, 0));
}

TEST(RowsByAdvance, LooksAtTheNextLongest128Only) {
  std::vector<std::vector<std::int32_t>> rows(131, {40, 41});
  rows[0] = {0, 1};
  rows[130] = {0, 1};
  EXPECT_EQ(ordered(matrix_of(rows), 2)[1], 1);
  rows.erase(rows.begin() + 1, rows.begin() + 3);
  EXPECT_EQ(ordered(matrix_of(rows), 2)[1], 128);
}

}  // namespace

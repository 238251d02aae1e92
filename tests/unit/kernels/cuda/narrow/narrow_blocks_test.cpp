#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "kernels/cuda/narrow/narrow_code.hpp"
#include "kernels/cuda/narrow/narrow_executable.hpp"

namespace {

using namespace spjit;
using testing::ElementsAre;

CsrMatrix rows_of(const std::vector<std::int64_t>& lengths) {
  CsrMatrix matrix{std::ssize(lengths), 1000, {0}, {}, {}};
  for (const std::int64_t length : lengths) {
    matrix.row_ptrs.push_back(matrix.row_ptrs.back() + length);
  }
  return matrix;
}

TEST(NarrowBlocks, HaveRowsOfSoManyEntriesOrOneLongerRow) {
  EXPECT_THAT(divide_rows(rows_of({3, 4, 3, 1, 20, 0, 10, 1}), 10, 100),
              ElementsAre(0, 3, 4, 5, 7, 8));
}

TEST(NarrowBlocks, HaveNoMoreRowsThanThreads) {
  EXPECT_THAT(divide_rows(rows_of({0, 0, 0, 0, 0}), 10, 2), ElementsAre(0, 2, 4, 5));
  EXPECT_THAT(divide_rows(rows_of({7}), 10, 2), ElementsAre(0, 1));
}

TEST(NarrowBlocks, HaveTheLeastPowerOfTwoOfColumns) {
  std::vector<std::int64_t> columns;
  for (const std::int64_t n : {1, 2, 3, 5, 8, 9, 16, 100}) {
    columns.push_back(few_columns_for(n));
  }

  EXPECT_THAT(columns, ElementsAre(1, 2, 4, 8, 8, 16, 16, 16));
  EXPECT_EQ((NarrowProgram{{}, 1, false}.stage_entries()), 1024);
  EXPECT_EQ((NarrowProgram{{}, 16, false}.stage_entries()), 128);
  EXPECT_EQ((NarrowProgram{{}, 16, false}.rows_a_block()), 8);
}

}  // namespace

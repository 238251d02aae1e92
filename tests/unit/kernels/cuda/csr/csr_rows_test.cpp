#include "kernels/cuda/csr/csr_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/cancel.hpp"
#include "kernels/cuda/csr/csr_code.hpp"
#include "spjit/error.hpp"
#include "tests/support/padded_3x3.hpp"

namespace {

using namespace spjit;
using testing::ElementsAre;

/// Rows of 1, 0, 5 and 1 entries.
CsrMatrix four_rows() {
  return {4, 9, {0, 1, 1, 6, 7}, {4, 0, 2, 3, 7, 8, 5}, {1, 2, 3, 4, 5, 6, 7}};
}

TEST(CsrRows, ComeLongestFirstAndBeginAtMultiplesOfFour) {
  const CsrRows rows(four_rows(), {});

  EXPECT_THAT(rows.order, ElementsAre(2, 0, 3, 1));
  EXPECT_THAT(rows.lengths, ElementsAre(5, 1, 1, 0));
  EXPECT_THAT(rows.begins, ElementsAre(0, 8, 12, 16));
  EXPECT_EQ(rows.entries, 16 + k_csr_cuda_group);
  EXPECT_THAT(rows.columns,
              ElementsAre(0, 2, 3, 7, 8, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_TRUE(rows.down.empty());
}

TEST(CsrRows, ArrangeValuesAsTheirColumns) {
  const CsrMatrix matrix = four_rows();
  CsrRows rows(matrix, {});

  const std::vector<float> arranged = rows.arrange(matrix.values);

  EXPECT_THAT(arranged, ElementsAre(2, 3, 4, 5, 6, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0));
  rows.columns.clear();
  EXPECT_EQ(rows.arrange(matrix.values), arranged) << "columns may be in a GPU by then";
}

TEST(CsrRows, OfAConvolutionHaveChannelsAndTaps) {
  Convolution of = testing_support::padded_3x3(2, 5, 6);
  of.dilation_height = 2;
  of.dilation_width = 3;
  const CsrMatrix matrix{1, 18, {0, 3}, {0, 5, 16}, {1, 2, 3}};

  const CsrRows rows(matrix, of);

  EXPECT_THAT(rows.columns, ElementsAre(0, 0, 1, 0, 0, 0, 0, 0));
  EXPECT_THAT(rows.down, ElementsAre(0, 2, 4, 0, 0, 0, 0, 0));
  EXPECT_THAT(rows.right, ElementsAre(0, 6, 3, 0, 0, 0, 0, 0));
}

TEST(CsrTiles, LeaveFewLanesWithoutAColumn) {
  const auto tile_for = [](std::int64_t n) { return to_string(csr_tile_for({}, n)); };

  EXPECT_EQ(tile_for(1), "lanes=8 columns=1");
  EXPECT_EQ(tile_for(16), "lanes=8 columns=2");
  EXPECT_EQ(tile_for(32), "lanes=8 columns=4");
  EXPECT_EQ(tile_for(64), "lanes=16 columns=4");
  EXPECT_EQ(tile_for(128), "lanes=32 columns=4");
  EXPECT_EQ(tile_for(129), "lanes=8 columns=4");
  EXPECT_EQ(to_string(csr_tile_for({.b_layout = Layout::tokens_major}, 128)), "lanes=32 columns=1");
}

}  // namespace

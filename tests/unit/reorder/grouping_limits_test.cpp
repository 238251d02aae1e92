#include "reorder/grouping_limits.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "test_matrices.hpp"

namespace spjit {
namespace {

using reorder::count_shards;
using reorder::GroupingLimits;

TEST(CountShards, IsOneUpToTheExactWork) {
  const GroupingLimits limits{1000, 0};

  EXPECT_EQ(count_shards(0, 10, 50, limits), 1);
  EXPECT_EQ(count_shards(1000, 10, 50, limits), 1);
  EXPECT_EQ(count_shards(1001, 10, 50, limits), 2);
  EXPECT_EQ(count_shards(3500, 10, 50, limits), 4);
}

TEST(CountShards, GrantsWorkInProportionToNnz) {
  const GroupingLimits limits{1000, 200};

  EXPECT_EQ(count_shards(2000, 10, 50, limits), 1);
  EXPECT_EQ(count_shards(2001, 10, 50, limits), 2);
}

TEST(CountShards, NeverExceedsTheTiles) {
  const std::int64_t work = std::numeric_limits<std::int64_t>::max();

  EXPECT_EQ(count_shards(work, 10, 7, {1, 0}), 7);
  EXPECT_EQ(count_shards(work, 10, 0, {0, 0}), 1);
}

TEST(EstimatedWork, FollowsTheColumnCounts) {
  // Column counts 4 and 2. Balanced with many tiles: 4 * 2 + 2 * 1; with one tile: 4 * 1 + 2 * 1.
  // Similar at m1 = 1: visits (16 + 4) / 2 = 10, and 4 rows compare min(4 / 2, 10 / 4) = 2 each, an
  // eighth of a visit apiece.
  const CsrMatrix matrix = reorder_test::make_matrix({{0, 1}, {0, 1}, {0}, {0}}, 2);
  const auto subset = reorder::take_rows(matrix, std::vector<std::int32_t>{0, 1, 2, 3});

  EXPECT_EQ(reorder::estimate_balanced_work(subset, 100), 10);
  EXPECT_EQ(reorder::estimate_balanced_work(subset, 1), 6);
  EXPECT_EQ(reorder::estimate_similarity_work(subset, 1), 11);
}

}  // namespace
}  // namespace spjit

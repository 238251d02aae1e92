#include "matrix/sampling.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace spjit {
namespace {

using testing::Each;
using testing::ElementsAre;

TEST(RandomStream, StaysBelowTheBoundAndReachesAllOfIt) {
  RandomStream random(1);
  std::vector<int> counts(7, 0);

  for (int draw = 0; draw < 7000; ++draw) {
    ++counts.at(random.below(7));
  }

  // A deviation of 29 each.
  EXPECT_THAT(counts, Each(testing::AllOf(testing::Gt(1000 - 180), testing::Lt(1000 + 180))));
}

TEST(SampleBelow, GivesDistinctAscendingNumbersOfEveryCount) {
  RandomStream random(2);
  for (std::uint64_t count = 0; count <= 50; ++count) {
    const std::vector<std::uint64_t> numbers = sample_below(random, count, 50);

    EXPECT_EQ(numbers.size(), count);
    EXPECT_EQ(std::adjacent_find(numbers.begin(), numbers.end(), std::greater_equal<>()),
              numbers.end());
    EXPECT_THAT(numbers, Each(testing::Lt(50U)));
  }
}

TEST(SampleBelow, MakesEveryNumberEquallyLikely) {
  RandomStream random(3);
  for (const std::uint64_t count : {3U, 7U}) {
    std::vector<int> counts(10, 0);
    for (int round = 0; round < 5000; ++round) {
      for (const std::uint64_t number : sample_below(random, count, 10)) {
        ++counts.at(number);
      }
    }

    // A deviation of 32 each.
    const int mean = static_cast<int>(500 * count);
    EXPECT_THAT(counts, Each(testing::AllOf(testing::Gt(mean - 200), testing::Lt(mean + 200))));
  }
}

TEST(Shuffled, IsAPermutation) {
  RandomStream random(4);

  std::vector<std::uint32_t> order = shuffled(random, 100);

  std::vector<std::uint32_t> expected(100);
  std::iota(expected.begin(), expected.end(), 0U);
  EXPECT_NE(order, expected);
  std::sort(order.begin(), order.end());
  EXPECT_EQ(order, expected);
}

TEST(SplitByWeight, IsProportionalWithinOne) {
  EXPECT_THAT(split_by_weight(12, {1, 2, 3}, 100), ElementsAre(2, 4, 6));
  EXPECT_THAT(split_by_weight(1, {1, 1}, 100), ElementsAre(0, 1));
}

TEST(SplitByWeight, HandsOnWhatACapCutsOff) {
  // 90 of 100 go to the first by weight; capped, the rest is shared evenly.
  EXPECT_THAT(split_by_weight(100, {90, 5, 5}, 40), ElementsAre(40, 30, 30));
  // The second goes over the cap only once the first is capped.
  EXPECT_THAT(split_by_weight(100, {60, 30, 10}, 45), ElementsAre(45, 41, 14));
  EXPECT_THAT(split_by_weight(100, {70, 29, 1}, 40), ElementsAre(40, 40, 20));
  EXPECT_THAT(split_by_weight(9, {1000, 10, 1}, 3), ElementsAre(3, 3, 3));
}

TEST(SplitByWeight, SumsExactlyForLargeNumbers) {
  const std::vector<std::uint64_t> weights(1000, std::uint64_t{1} << 31U);

  const std::vector<std::int64_t> shares = split_by_weight(2147483647, weights, 2147484);

  EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), std::int64_t{0}), 2147483647);
  EXPECT_THAT(shares, Each(testing::AllOf(testing::Ge(2147483), testing::Le(2147484))));
}

}  // namespace
}  // namespace spjit

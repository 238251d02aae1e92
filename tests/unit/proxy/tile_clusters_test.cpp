#include "plan/tile_clusters.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "spjit/error.hpp"

namespace {

using spjit::cluster_tiles;
using spjit::TileCluster;
using spjit::TileCost;

std::vector<std::vector<std::int64_t>> members(const std::vector<TileCluster>& clusters) {
  std::vector<std::vector<std::int64_t>> result;
  for (const TileCluster& cluster : clusters) result.push_back(cluster.tiles);
  return result;
}

using Members = std::vector<std::vector<std::int64_t>>;

TEST(TileClusters, JoinsWhatIsNearest) {
  const std::vector<TileCost> tiles = {{10, 20}, {100, 200}, {11, 21}, {101, 199}, {55, 110}};

  const auto clusters = cluster_tiles(tiles, 3);

  EXPECT_EQ(members(clusters), (Members{{0, 2}, {1, 3}, {4}}));
  EXPECT_DOUBLE_EQ(clusters[0].loads, 10.5);
  EXPECT_DOUBLE_EQ(clusters[0].fmas, 20.5);
}

TEST(TileClusters, PutsTilesOfEqualCostTogetherAndLeavesTheOthersApart) {
  const std::vector<TileCost> tiles = {{5, 9}, {7, 9}, {5, 9}, {5, 9}};

  EXPECT_EQ(members(cluster_tiles(tiles, 4)), (Members{{0, 2, 3}, {1}}));
  EXPECT_EQ(members(cluster_tiles(tiles, 1)), (Members{{0, 1, 2, 3}}));
}

TEST(TileClusters, CountsLoadsAndFmasAlike) {
  // Means 10 and 1000: a load more is as far as a hundred FMAs more.
  const std::vector<TileCost> tiles = {{10, 1000}, {12, 1000}, {10, 1100}, {8, 900}};

  EXPECT_EQ(members(cluster_tiles(tiles, 3)), (Members{{0, 2}, {1}, {3}}));
}

TEST(TileClusters, PrefersToJoinSmallClustersAsWardDoes) {
  // 0 is as far from the three at 10 as from the one at -10, and joins the one.
  const std::vector<TileCost> tiles = {{100, 100}, {110, 100}, {110, 100}, {110, 100}, {90, 100}};

  EXPECT_EQ(members(cluster_tiles(tiles, 2)), (Members{{0, 4}, {1, 2, 3}}));
}

TEST(TileClusters, JoinsTwoFartherSingleTilesBeforeTwoCrowds) {
  std::vector<TileCost> tiles = {{100, 200}, {100, 203}};
  for (int i = 0; i < 10; ++i) tiles.insert(tiles.end(), {{100, 100}, {100, 102}});

  const auto clusters = cluster_tiles(tiles, 3);

  ASSERT_EQ(clusters.size(), 3U);
  EXPECT_EQ(clusters[0].tiles, (std::vector<std::int64_t>{0, 1}));
  EXPECT_DOUBLE_EQ(clusters[1].fmas, 100);
  EXPECT_DOUBLE_EQ(clusters[2].fmas, 102);
}

TEST(TileClusters, TakesNothing) { EXPECT_TRUE(cluster_tiles({}, 3).empty()); }

TEST(TileClusters, HoldsEveryTileOnceWithinItsBounds) {
  std::mt19937_64 random(5);
  for (const std::size_t count : {1U, 7U, 300U, 5000U}) {
    std::vector<TileCost> tiles;
    for (std::size_t i = 0; i < count; ++i) {
      tiles.push_back(
          {static_cast<std::int64_t>(random() % 500), static_cast<std::int64_t>(random() % 4000)});
    }
    for (const std::int64_t most : {1, 3, 48}) {
      const auto clusters = cluster_tiles(tiles, most);

      std::vector<std::int64_t> all;
      for (const TileCluster& cluster : clusters) {
        all.insert(all.end(), cluster.tiles.begin(), cluster.tiles.end());
        EXPECT_TRUE(std::ranges::is_sorted(cluster.tiles));
      }
      std::ranges::sort(all);
      EXPECT_LE(std::ssize(clusters), most);
      EXPECT_EQ(std::ssize(clusters), std::min<std::int64_t>(most, std::ssize(tiles)));
      ASSERT_EQ(all.size(), count);
      EXPECT_EQ(all.back(), static_cast<std::int64_t>(count) - 1);
      EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
    }
  }
}

TEST(TileClusters, RefusesWhatHasNoMeaning) {
  EXPECT_THROW(static_cast<void>(cluster_tiles({}, 0)), spjit::InvalidArgument);
  const std::vector<TileCost> negative = {{1, -1}};
  EXPECT_THROW(static_cast<void>(cluster_tiles(negative, 1)), spjit::InvalidArgument);
}

}  // namespace

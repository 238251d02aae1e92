#include "bench/rank/tile_tree.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "spjit/error.hpp"

namespace {

using spjit::HostSampleGroup;
using spjit::HostTile;
using spjit::TileTree;

HostTile tile_of(std::int64_t nv) {
  HostTile tile;
  tile.nv = nv;
  return tile;
}

/// Tiles of 1 and 2 vectors with these times.
HostSampleGroup group_of(std::int64_t n, double one_us, double two_us) {
  HostSampleGroup group;
  group.work = {64, 64, 1024, n, 1, 0};
  group.samples.resize(2);
  group.samples[0].candidate.tile = tile_of(1);
  group.samples[0].us = one_us;
  group.samples[1].candidate.tile = tile_of(2);
  group.samples[1].us = two_us;
  return group;
}

/// One vector is better below n = 100, two above.
std::vector<HostSampleGroup> split_by_n() {
  std::vector<HostSampleGroup> groups;
  for (std::int64_t n = 10; n < 200; n += 10) {
    groups.push_back(n < 100 ? group_of(n, 10, 15) : group_of(n, 15, 10));
  }
  return groups;
}

std::int64_t chosen_nv(const TileTree& tree, std::int64_t n,
                       const std::vector<HostTile>& tiles = {tile_of(1), tile_of(2)}) {
  return tiles.at(tree.choose({64, 64, 1024, n, 1, 0}, tiles).value()).nv;
}

TEST(TileTree, SplitsWhereTheBestClassChanges) {
  const TileTree tree(split_by_n(), {});

  EXPECT_EQ(tree.leaves(), 2U);
  EXPECT_EQ(chosen_nv(tree, 20), 1);
  EXPECT_EQ(chosen_nv(tree, 94), 1);
  EXPECT_EQ(chosen_nv(tree, 101), 2);
  EXPECT_EQ(chosen_nv(tree, 2000), 2);
}

TEST(TileTree, IsAsDeepAndItsLeavesAsSmallAsAllowed) {
  EXPECT_EQ(TileTree(split_by_n(), {.depth = 0}).leaves(), 1U);
  EXPECT_EQ(TileTree(split_by_n(), {.depth = 8, .least_groups = 15}).leaves(), 1U);
}

TEST(TileTree, WeighsHowMuchSlowerTheOtherIs) {
  // Two groups where one vector is 1 % better, one where two are 50 % better.
  const std::vector<HostSampleGroup> groups = {group_of(8, 100, 101), group_of(8, 100, 101),
                                               group_of(8, 150, 100)};

  EXPECT_EQ(chosen_nv(TileTree(groups, {}), 8), 2);
}

TEST(TileTree, TakesTheNextClassWhereAMatrixHasNoTileOfTheBest) {
  const TileTree tree(split_by_n(), {});

  EXPECT_EQ(chosen_nv(tree, 20, {tile_of(2)}), 2);
  EXPECT_EQ(chosen_nv(tree, 20, {tile_of(6)}), 6);  // of no class that was trained
  EXPECT_FALSE(tree.choose({}, {}).has_value());
}

TEST(TileTree, RefusesNothingToLearnFrom) {
  EXPECT_THROW(TileTree({}, {}), spjit::InvalidArgument);
  EXPECT_THROW(TileTree(split_by_n(), {.depth = -1}), spjit::InvalidArgument);
  EXPECT_THROW(TileTree(split_by_n(), {.least_groups = 0}), spjit::InvalidArgument);
  EXPECT_THROW(TileTree(std::vector<HostSampleGroup>{group_of(8, 0, 0)}, {}),
               spjit::InvalidArgument);
}

}  // namespace

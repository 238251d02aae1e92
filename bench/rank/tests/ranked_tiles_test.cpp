#include "bench/rank/ranked_tiles.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/host/unrolled/host_features.hpp"
#include "spjit/error.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;
using testing::ElementsAre;
using Groups = std::vector<RankedTiles>;

/// Tiles "1", "2", ... with these times; 0 did not run.
RankedTiles group_of(const std::string& name, const std::vector<double>& times) {
  RankedTiles group{name};
  for (const double us : times) {
    group.tiles.push_back(std::to_string(group.tiles.size() + 1));
    group.times.push_back(us > 0 ? us : INFINITY);
  }
  return group;
}

/// Ranks tiles in the order they are in.
std::vector<double> first_first(const RankedTiles& group) {
  std::vector<double> scores;
  for (std::size_t i = 0; i < group.tiles.size(); ++i) scores.push_back(-static_cast<double>(i));
  return scores;
}

std::vector<double> by_time(const RankedTiles& group) {
  std::vector<double> scores;
  for (const double time : group.times) scores.push_back(-time);
  return scores;
}

/// A matrix of 8 rows whose tiles have m1 = 1, 2, ... and these times.
HostSampleGroup host_group(const std::vector<double>& times_us) {
  HostSampleGroup group;
  group.limits.lanes = 16;
  group.limits.registers = 32;
  group.work = {.rows = 8, .cols = 32, .nnz = 64, .n = 64};
  for (const double us : times_us) {
    HostSample sample;
    sample.candidate.tile.m1 = static_cast<std::int64_t>(group.samples.size()) + 1;
    sample.candidate.tile.nv = 1;
    sample.candidate.panels = 4;
    sample.candidate.grouping = {.tiles = 2, .nnc_sum = 32};
    sample.us = us;
    group.samples.push_back(sample);
  }
  return group;
}

TEST(RankedTiles, AveragesOverGroups) {
  const RankQuality quality =
      evaluate(Groups{group_of("a", {2, 4, 1}), group_of("b", {3, 6, 9})}, first_first);

  EXPECT_EQ(quality.groups, 2U);
  EXPECT_DOUBLE_EQ(quality.first.mean, 0.5);  // 2 / 1 - 1 and 0
  EXPECT_DOUBLE_EQ(quality.first.worst, 1);
  EXPECT_DOUBLE_EQ(quality.best_of_ten.worst, 0);
  EXPECT_DOUBLE_EQ(quality.within_percent, 1);
  EXPECT_DOUBLE_EQ(quality.pairs, (1.0 / 3 + 1) / 2);
  EXPECT_DOUBLE_EQ(quality.tau, (-1.0 / 3 + 1) / 2);
}

TEST(RankedTiles, CountsTheGroupsWhoseBestOfTenIsWithinOnePercent) {
  std::vector<double> near(10, 2.0);
  std::vector<double> far = near;
  near.push_back(1.985);
  far.push_back(1.97);

  EXPECT_DOUBLE_EQ(evaluate(Groups{group_of("a", near)}, first_first).within_percent, 1);
  EXPECT_DOUBLE_EQ(evaluate(Groups{group_of("a", far)}, first_first).within_percent, 0);
}

TEST(RankedTiles, LeavesOutWhatDidNotRun) {
  const Groups groups = {group_of("a", {2, 0}), group_of("b", {4, 3, 0})};

  EXPECT_EQ(evaluate(groups, by_time).groups, 1U);
  EXPECT_DOUBLE_EQ(evaluate(groups, by_time).tau, 1);
  EXPECT_THROW(static_cast<void>(evaluate(Groups{group_of("a", {2, 0})}, by_time)),
               InvalidArgument);
}

TEST(RankedTiles, RanksByTheTimesOfAnotherDay) {
  const Groups earlier = {group_of("b", {1, 2, 3, 4}), group_of("a", {5, 0, 7})};

  // The second did not run on that day, the fourth was not there.
  EXPECT_THAT(score_by_earlier(earlier)(group_of("a", {1, 1, 1, 1})),
              ElementsAre(-5, -INFINITY, -7, -INFINITY));
  EXPECT_THAT(score_by_earlier(earlier)(group_of("c", {1})), ElementsAre(-INFINITY));
}

TEST(RankedTiles, OfTheHostHaveFeaturesAndTheRulesChoice) {
  HostSampleGroup group = host_group({1, 0});
  group.recipe = {{"file", "dlmc/rn50/0.9/a.smtx"}};
  group.samples[1].candidate.tile = host_tile_by_rules(contiguous(group.work), group.limits);

  const RankedTiles tiles = ranked_tiles(group);

  EXPECT_EQ(tiles.network, "dlmc/rn50");
  EXPECT_THAT(tiles.times, ElementsAre(1, INFINITY));
  EXPECT_THAT(tiles.rules, ElementsAre(0, 1));
  EXPECT_EQ(tiles.features.size(), 2 * host_feature_schema().features.size());
  group.recipe = {{"file", "a.smtx"}};
  EXPECT_EQ(ranked_tiles(group).network, "a.smtx");
}

TEST(RankedTiles, WithoutTimesAreRefused) {
  HostSampleGroup host = host_group({1});
  host.times = TimeKind::none;
  CudaSampleGroup cuda;
  cuda.times = TimeKind::none;

  EXPECT_THROW(static_cast<void>(ranked_tiles(host)), Error);
  EXPECT_THROW(static_cast<void>(ranked_tiles(cuda)), Error);
}

}  // namespace

#include "bench/rank/rank_experiment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/host/unrolled/host_features.hpp"
#include "kernels/host/unrolled/host_heuristic.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;
using testing::ElementsAre;
using Groups = std::vector<HostSampleGroup>;

/// A matrix of 8 rows whose tiles have m1 = 1, 2, ... and these times; 0 did not run.
HostSampleGroup group_of(const std::string& name, const std::vector<double>& times_us) {
  HostSampleGroup group;
  group.name = name;
  group.recipe = {{"file", name}};
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

/// Ranks tiles in the order they are in.
std::vector<double> first_first(const HostSampleGroup& group) {
  std::vector<double> scores;
  for (std::size_t i = 0; i < group.samples.size(); ++i) scores.push_back(-static_cast<double>(i));
  return scores;
}

TEST(RankExperiment, TakesTheNetworkFromTheFilesPath) {
  EXPECT_EQ(network_of(group_of("dlmc/rn50/0.9/a.smtx", {})), "dlmc/rn50");
  EXPECT_EQ(network_of(group_of("dlmc/a.smtx", {})), "dlmc/a.smtx");
  EXPECT_EQ(network_of(group_of("a.smtx", {})), "a.smtx");
  EXPECT_EQ(network_of(HostSampleGroup{}), "");
}

TEST(RankExperiment, AveragesRegretsOverGroups) {
  const Groups groups = {group_of("a", {2, 4, 1}), group_of("b", {3, 6, 9})};

  const RankQuality quality = evaluate(groups, first_first);

  EXPECT_EQ(quality.groups, 2U);
  EXPECT_DOUBLE_EQ(quality.top1.mean, 0.5);  // 2 / 1 - 1 and 0
  EXPECT_DOUBLE_EQ(quality.top1.worst, 1);
  EXPECT_DOUBLE_EQ(quality.top5.worst, 0);
  EXPECT_DOUBLE_EQ(quality.found, 1);
  EXPECT_DOUBLE_EQ(quality.pair_accuracy, (1.0 / 3 + 1) / 2);
  EXPECT_DOUBLE_EQ(quality.him, 0.5);  // both have 8 rows: the lesser relative speed
}

TEST(RankExperiment, CountsTheGroupsWhoseBestOfTenIsWithinOnePercent) {
  const std::vector<double> ten_slow(10, 2.0);
  std::vector<double> near = ten_slow;
  near.push_back(1.985);
  std::vector<double> far = ten_slow;
  far.push_back(1.97);

  EXPECT_DOUBLE_EQ(evaluate(Groups{group_of("a", near)}, first_first).found, 1);
  EXPECT_DOUBLE_EQ(evaluate(Groups{group_of("a", far)}, first_first).found, 0);
}

TEST(RankExperiment, LeavesOutGroupsWithoutAChoice) {
  const Groups groups = {group_of("a", {2, 0}), group_of("b", {1, 2})};

  EXPECT_EQ(evaluate(groups, first_first).groups, 1U);
  EXPECT_EQ(evaluate_random(groups).groups, 1U);
  EXPECT_EQ(evaluate_named(groups, [](const auto&) { return std::size_t{0}; }).groups, 1U);
}

TEST(RankExperiment, NamedTilesHaveOnlyTheRegretOfTheFirst) {
  const Groups groups = {group_of("a", {2, 4, 1}), group_of("b", {3, 6, 9})};

  const RankQuality quality = evaluate_named(groups, [](const auto&) { return std::size_t{1}; });

  EXPECT_DOUBLE_EQ(quality.top1.mean, 2);  // 4 / 1 - 1 and 6 / 3 - 1
  EXPECT_DOUBLE_EQ(quality.ndcg, 0);
}

TEST(RankExperiment, RanksByTheTimesOfAnotherDay) {
  const Groups earlier = {group_of("b", {1, 2, 3, 4}), group_of("a", {5, 0, 7})};
  HostSampleGroup group = group_of("a", {1, 1, 1, 1});

  const std::vector<double> scores = score_by_earlier(group, earlier);

  EXPECT_THAT(scores, ElementsAre(-5, -INFINITY, -7, -INFINITY));  // did not run; is not there
  EXPECT_THAT(score_by_earlier(group_of("c", {1}), earlier), ElementsAre(-INFINITY));
}

TEST(RankExperiment, NamesTheTileOfTheRulesElseTheFirst) {
  HostSampleGroup group = group_of("a", {1, 1, 1});
  EXPECT_EQ(name_by_rules(group), 0U);

  group.samples[2].candidate.tile = host_tile_by_rules(contiguous(group.work), group.limits);
  EXPECT_EQ(name_by_rules(group), 2U);
}

TEST(RankExperiment, FewestLoadsPrefersTilesThatShareThem) {
  HostSampleGroup group = group_of("a", {1, 1});
  group.samples[1].candidate.grouping.nnc_sum = 64;

  EXPECT_THAT(score_by_loads(group), ElementsAre(-4 * (64 + 32), -4 * (64 + 64)));
}

TEST(RankExperiment, WritesNothingOfWhatNamedTilesLack) {
  const Groups groups = {group_of("a", {2, 4, 1})};

  EXPECT_TRUE(to_json(evaluate(groups, first_first)).contains("ndcg_at_10"));
  EXPECT_FALSE(to_json(evaluate_named(groups, [](const auto&) {
                 return std::size_t{0};
               })).contains("ndcg_at_10"));
}

}  // namespace

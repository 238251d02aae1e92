#include "bench/rank/ranked_tiles.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "artifact/tuned_families.hpp"
#include "compiler/pipeline.hpp"
#include "spjit/error.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;
using testing::ElementsAre;
using Groups = std::vector<RankedTiles>;

/// Tiles "1", "2", ... with these times; 0 did not run.
RankedTiles group_of(const std::string& name, const std::vector<double>& times) {
  RankedTiles group;
  group.name = name;
  for (const double us : times) {
    group.tiles.push_back(std::to_string(group.tiles.size() + 1));
    group.times_us.push_back(us > 0 ? us : INFINITY);
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
  for (const double time : group.times_us) scores.push_back(-time);
  return scores;
}

SampleLine line_of_file(const char* file) {
  SampleLine line;
  line.family = "host";
  line.recipe = {{"file", file}};
  return line;
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

TEST(RankedTiles, KnowTheirNetworkAndSchema) {
  const RankedTiles group = ranked_tiles({"a matrix"}, line_of_file("dlmc/rn50/0.9/a.smtx"));

  EXPECT_EQ(group.name, "a matrix");
  EXPECT_EQ(group.network, "dlmc/rn50");
  EXPECT_EQ(group.schema, &tuned_family("host").schema());
  EXPECT_EQ(group.kind, TimeKind::measured);
  EXPECT_EQ(ranked_tiles({"b"}, line_of_file("a.smtx")).network, "a.smtx");
}

TEST(RankedTiles, WithoutTimesAreRefused) {
  SampleLine line = line_of_file("a.smtx");
  line.times = TimeKind::none;

  EXPECT_THROW(static_cast<void>(ranked_tiles({"a matrix"}, line)), Error);
}

/// Measured on an H100, of layers of DLMC. The shipped model is trained on drawn matrices alone.
Groups measured_layers() {
  Groups groups;
  for (const char* file : {"dlmc-512-h100-measured.jsonl.gz", "dlmc-more-h100-measured.jsonl.gz"}) {
    std::ranges::move(
        read_ranked_tiles(std::filesystem::path(SPJIT_SOURCE_DIR) / "bench/results/clock" / file),
        std::back_inserter(groups));
  }
  return groups;
}

RankQuality quality_of(const RankModel& model) {
  return evaluate(measured_layers(),
                  [&](const RankedTiles& group) { return model.scores(group.features); });
}

/// A model that is trained again has to reach it.
bool is_good(const RankQuality& quality) {
  return quality.first.mean <= 0.04 && quality.first.worst <= 0.2 &&
         quality.best_of_ten.mean <= 0.004;
}

TEST(ShippedCudaModel, RanksTilesOfNetworksThatItHasNotSeen) {
  CompileOptions options;
  options.target = Target::parse("sm_90");
  const auto shipped = rank_model_of(options);
  ASSERT_NE(shipped, nullptr);

  const RankQuality prior =
      evaluate(measured_layers(), [](const RankedTiles& group) { return group.prior; });
  const RankQuality learned = quality_of(shipped->model);

  EXPECT_EQ(learned.groups, 15U);
  EXPECT_TRUE(is_good(learned)) << learned.first.mean << " " << learned.first.worst << " "
                                << learned.best_of_ten.mean;
  EXPECT_FALSE(is_good(prior));
  RankModel short_of_trees = shipped->model;
  short_of_trees.trees.resize(20);
  EXPECT_FALSE(is_good(quality_of(short_of_trees)));
}

}  // namespace

#include "kernels/tuning/training/sample_training.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "artifact/tuned_families.hpp"
#include "kernels/cuda/unrolled/cuda_features.hpp"
#include "kernels/cuda/unrolled/cuda_samples.hpp"
#include "tests/support/cuda/cuda_space_testing.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

/// All tiles of a matrix in so many microseconds, the last of which did not run.
CudaSampleGroup group_named(const std::string& name) {
  CudaSampleGroup group;
  group.name = name;
  group.limits = cuda_limits();
  const Problem problem = cuda_problem(random_matrix(130, 90, 0.8), 200);
  for (const CudaCandidate& candidate : cuda_space(problem).survivors()) {
    group.work = candidate.work;
    group.samples.push_back({candidate, static_cast<double>(group.samples.size() + 1)});
  }
  group.samples.back().us = 0;
  return group;
}

std::vector<TrainingGroup> groups_of(const CudaSampleGroup& group) {
  return training_groups(read_tiles(std::vector{to_line(group)}));
}

SampleLine line_named(const std::string& name) {
  SampleLine line;
  line.name = name;
  line.recipe = {{"name", name.substr(0, 1)}};
  return line;
}

TEST(SampleTraining, RowsAndTimesAreThoseOfTheTiles) {
  const CudaSampleGroup group = group_named("a matrix");
  std::vector<CudaCandidate> candidates;
  for (const CudaSample& sample : group.samples) candidates.push_back(sample.candidate);

  const std::vector<TrainingGroup> groups = groups_of(group);

  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].name, "a matrix");
  EXPECT_EQ(groups[0].columns, cuda_feature_schema().features.size());
  EXPECT_EQ(groups[0].rows, cuda_feature_rows(candidates, group.limits));
  EXPECT_EQ(groups[0].times_us.front(), 1);
  EXPECT_TRUE(std::isinf(groups[0].times_us.back()));
}

TEST(SampleTraining, WhatLeavesNothingToRankIsLeftOut) {
  CudaSampleGroup one = group_named("one ran");
  for (CudaSample& sample : one.samples) sample.us = 0;
  one.samples[3].us = 2;

  EXPECT_TRUE(groups_of(one).empty());
  one.samples[4].us = 2;
  EXPECT_EQ(groups_of(one).size(), 1U);
}

TEST(SampleTraining, AModelOfThemFitsTheFeatures) {
  TrainingOptions options = training_options("mine", cuda_feature_schema());
  options.rounds = 3;
  options.validation_share = 0;

  const RankModel model = train_rank_model(groups_of(group_named("a")), options);

  check_schema(model, cuda_feature_schema().name, cuda_feature_schema().version,
               cuda_feature_schema().names());
  EXPECT_EQ(model.trees.size(), 3U);
}

TEST(SampleTraining, AllGroupsOfADrawnMatrixAreDrawn) {
  const std::vector<SampleLine> groups = {line_named("a n1"), line_named("a n2"),
                                          line_named("b n1"), line_named("c n1")};

  const std::vector<SampleLine> drawn = draw_matrices(groups, 2, 1);

  std::set<std::string> recipes;
  std::size_t of_drawn = 0;
  for (const SampleLine& group : drawn) recipes.insert(group.recipe.dump());
  for (const SampleLine& group : groups) of_drawn += recipes.count(group.recipe.dump());
  EXPECT_EQ(recipes.size(), 2U);
  EXPECT_EQ(drawn.size(), of_drawn);
  EXPECT_EQ(draw_matrices(groups, 9, 1).size(), 4U);
  const std::vector<std::string> texts = {"a", "b", "c", "d", "e", "f"};
  std::set<std::set<std::string>> different;
  for (std::uint32_t seed = 0; seed < 20; ++seed) different.insert(draw_recipes(texts, 2, seed));
  EXPECT_GT(different.size(), 5U);
}

}  // namespace

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "rankmodel/training/xgboost_booster.hpp"
#include "spjit/error.hpp"
#include "tests/unit/rank_training/made_up_groups.hpp"

namespace {

using spjit::TrainingData;
using spjit::XgboostBooster;
using spjit::XgboostMatrix;
using testing::HasSubstr;

TrainingData all_rows(const std::vector<spjit::TrainingGroup>& groups) {
  spjit::TrainingOptions options = spjit_test::made_up_options();
  options.validation_share = 0;
  return spjit::training_data(groups, options, false);
}

spjit::XgboostParameters ranking() {
  return {{"objective", "rank:ndcg"}, {"base_score", "0"}, {"nthread", "1"},
          {"max_depth", "6"},         {"lambda", "0.1"},   {"min_child_weight", "0.001"},
          {"tree_method", "hist"}};
}

TEST(XgboostTrees, ScoreAsXgboostDoes) {
  const spjit::QuietXgboost quiet;
  const TrainingData data = all_rows(spjit_test::made_up_groups(20, 3));
  const XgboostMatrix matrix(data);
  const TrainingData unseen = all_rows(spjit_test::made_up_groups(20, 4));
  const XgboostMatrix unseen_matrix(unseen);
  const std::array<const XgboostMatrix*, 1> matrices = {&matrix};
  XgboostBooster booster(matrices, ranking());
  for (int round = 0; round < 30; ++round) booster.update(round, matrix);

  const spjit::RankModel model{.name = "ours",
                               .features = spjit_test::k_made_up_features,
                               .trees = spjit::trees_of_xgboost(booster.json())};

  spjit::check_rank_model(model);
  ASSERT_EQ(model.trees.size(), 30U);
  const std::vector<float> theirs = booster.predict(unseen_matrix);
  const std::vector<double> ours = model.scores(unseen.rows);
  ASSERT_EQ(theirs.size(), ours.size());
  double size = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    ASSERT_NEAR(ours[i], theirs[i], 1e-5) << i;
    size = std::max(size, std::abs(ours[i]));
  }
  EXPECT_GT(size, 0.1);
}

TEST(XgboostTrees, AddToTheMargin) {
  const spjit::QuietXgboost quiet;
  TrainingData data = all_rows(spjit_test::made_up_groups(5, 3));
  data.margin.assign(data.grades.size(), 7.0F);
  const XgboostMatrix matrix(data);
  const std::array<const XgboostMatrix*, 1> matrices = {&matrix};
  XgboostBooster booster(matrices, ranking());
  booster.update(0, matrix);

  const spjit::RankModel model{.name = "ours",
                               .features = spjit_test::k_made_up_features,
                               .trees = spjit::trees_of_xgboost(booster.json())};

  const std::vector<float> theirs = booster.predict(matrix);
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    const auto row = std::span(data.rows).subspan(i * 4, 4);
    ASSERT_NEAR(7 + model.score(row), theirs[i], 1e-5) << i;
  }
}

TEST(XgboostTrees, LeaveOutPrunedNodesAndKeepChildrenTogether) {
  // Node 1 is deleted, and 3 is the left child of the root, 2 the right one.
  const auto trees = spjit::trees_of_xgboost(R"({"learner": {"gradient_booster": {
      "name": "gbtree", "model": {"trees": [{
        "left_children": [3, -1, -1, -1], "right_children": [2, -1, -1, -1],
        "split_indices": [5, 0, 0, 0], "split_conditions": [0.5, 9, 2, 1],
        "default_left": [1, 0, 0, 0], "split_type": [0, 0, 0, 0]}]}}}})");

  ASSERT_EQ(trees.size(), 1U);
  EXPECT_EQ(trees[0],
            (spjit::RankTree{{{.value = 0.5F, .feature = 5, .left = 1, .default_left = true},
                              {.value = 1},
                              {.value = 2}}}));
}

TEST(XgboostTrees, RefuseWhatTheyCannotBe) {
  const auto refusal = [](const char* text) {
    try {
      static_cast<void>(spjit::trees_of_xgboost(text));
    } catch (const spjit::Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };

  EXPECT_THAT(refusal("{"), HasSubstr("not a model of XGBoost's"));
  EXPECT_THAT(refusal(R"({"learner": {"gradient_booster": {"name": "dart"}}})"),
              HasSubstr("booster is not gbtree"));
  EXPECT_THAT(refusal(R"({"learner": {"gradient_booster": {"name": "gbtree", "model": {"trees": [{
        "left_children": [1], "right_children": [2], "split_indices": [0],
        "split_conditions": [0.5], "default_left": [1], "split_type": [0]}]}}}})"),
              HasSubstr("is not whole"));
  EXPECT_THAT(refusal(R"({"learner": {"gradient_booster": {"name": "gbtree", "model": {"trees": [{
        "left_children": [0], "right_children": [0], "split_indices": [0],
        "split_conditions": [0.5], "default_left": [1], "split_type": [0]}]}}}})"),
              HasSubstr("too large"));
}

TEST(XgboostBooster, ThrowsWhatXgboostSays) {
  const spjit::QuietXgboost quiet;
  const TrainingData data = all_rows(spjit_test::made_up_groups(2, 3));
  const XgboostMatrix matrix(data);
  const std::array<const XgboostMatrix*, 1> matrices = {&matrix};
  XgboostBooster booster(matrices, {{"objective", "rank:nothing"}});

  try {
    booster.update(0, matrix);
    FAIL() << "taken";
  } catch (const spjit::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("failed to grow a tree: "));
    EXPECT_THAT(error.what(), HasSubstr("rank:nothing"));
  }
}

TEST(QuietXgboost, KeepsTrainingSilent) {
  const TrainingData data = all_rows(spjit_test::made_up_groups(2, 3));
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();

  {
    const spjit::QuietXgboost quiet;
    const XgboostMatrix matrix(data);
    const std::array<const XgboostMatrix*, 1> matrices = {&matrix};
    spjit::XgboostParameters parameters = ranking();
    parameters.emplace_back("no_such_parameter", "1");
    XgboostBooster booster(matrices, parameters);
    booster.update(0, matrix);
  }

  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace

#include "bench/convolution/goals.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bench/convolution/tests/made_up_convolution.hpp"

namespace {

using namespace spjit::bench;
using spjit::testing_support::made_up_convolution;
using testing::HasSubstr;
using testing::IsEmpty;
using State = GoalResult::State;

/// The one of that text.
GoalResult goal_of(const std::vector<ConvCase>& cases, const std::string& text) {
  for (const GoalResult& goal : evaluate_conv_goals(cases)) {
    if (goal.goal.find(text) != std::string::npos) return goal;
  }
  ADD_FAILURE() << "no goal " << text;
  return {};
}

ConvCase with_sparsity(ConvCase one, int sparsity) {
  one.sparsity = sparsity;
  return one;
}

ConvCase pointwise(ConvCase one) {
  one.shape = {.channels = 64, .height = 56, .width = 56};
  return one;
}

TEST(ConvGoals, HaveNoDataWithoutCases) {
  const std::vector<GoalResult> goals = evaluate_conv_goals({});
  EXPECT_EQ(goals.size(), 24U) << "six goals of two layouts and two batches";
  for (const GoalResult& goal : goals) EXPECT_EQ(goal.state, State::no_data) << goal.goal;
}

TEST(ConvGoals, MeansCountAShapeAsOftenAsItIsThere) {
  ConvCase often = made_up_convolution({{"spjit", 10}, {"onednn", 40}});
  ConvCase once = made_up_convolution({{"spjit", 10}, {"onednn", 10}});
  often.layers = 3;
  once.layers = 1;

  const GoalResult mean = goal_of({often, once}, "NCHW, batch 1: 90 % sparse: mean");
  const GoalResult worst = goal_of({often, once}, "NCHW, batch 1: 90 % sparse: every layer");

  EXPECT_NEAR(mean.measured, 2.8284, 1e-4) << "4^(3/4)";
  EXPECT_EQ(mean.state, State::met);
  EXPECT_EQ(mean.where, "4 layers");
  EXPECT_EQ(worst.state, State::met);
  EXPECT_EQ(goal_of({often, once, once}, "90 % sparse: mean").state, State::not_met);
}

TEST(ConvGoals, SayWhichLayerIsSlowerThanDenseAndWhatWasChosen) {
  ConvCase slow = made_up_convolution({{"spjit", 10}, {"onednn-nhwc", 9}});
  ConvCase slow_and_dense = slow;
  slow_and_dense.timings[0].detail = "dense";

  const GoalResult goal = goal_of({slow, slow_and_dense}, "every layer");

  EXPECT_EQ(goal.state, State::not_met);
  EXPECT_DOUBLE_EQ(goal.measured, 0.9);
  EXPECT_THAT(goal.where, HasSubstr("resnet50-90 64 filters, 64x56x56"));
  EXPECT_THAT(goal.where,
              HasSubstr("cold: compact; 4 layers below, 2 of them not by family dense"));
}

TEST(ConvGoals, KeepSparsitiesLayoutsBatchesAndCachesApart) {
  const ConvCase at_80 = with_sparsity(made_up_convolution({{"spjit", 10}, {"onednn", 14}}), 80);
  ConvCase pixels = with_sparsity(made_up_convolution({{"spjit-nhwc", 10}, {"onednn", 16}}), 80);
  pixels.batch = 8;
  ConvCase hot = with_sparsity(made_up_convolution({{"spjit", 1}, {"onednn", 99}}), 80);
  hot.hot = true;
  ConvCase other = hot;
  other.hot = false;
  other.network = "rapidocr-det";
  const std::vector<ConvCase> cases = {at_80, pixels, hot, other};

  EXPECT_DOUBLE_EQ(goal_of(cases, "NCHW, batch 1: 80 %").measured, 1.4);
  EXPECT_EQ(goal_of(cases, "NCHW, batch 1: 80 %").state, State::not_met);
  EXPECT_EQ(goal_of(cases, "NHWC, batch 8: 80 %").state, State::met);
  EXPECT_EQ(goal_of(cases, "NHWC, batch 1: 80 %").state, State::no_data);
  EXPECT_EQ(goal_of(cases, "NCHW, batch 1: 90 % sparse: mean").state, State::no_data);
}

TEST(ConvGoals, OfPatchesAreOf3x3AndThoseOfProductsOf1x1) {
  const ConvCase square = made_up_convolution({{"spjit", 10}, {"im2col+spmm", 14}});
  const ConvCase point = pointwise(made_up_convolution({{"spjit", 10.4}, {"im2col+spmm", 10}}));
  const ConvCase pixels = pointwise(
      made_up_convolution({{"spjit-nhwc", 10.2}, {"im2col+spmm", 9}, {"im2col+spmm-nhwc", 10}}));

  EXPECT_DOUBLE_EQ(goal_of({square, point}, "3x3").measured, 1.4);
  EXPECT_EQ(goal_of({square, point}, "3x3").state, State::met);
  EXPECT_DOUBLE_EQ(goal_of({square, point}, "1x1").measured, 1.04);
  EXPECT_EQ(goal_of({square, point}, "1x1").state, State::not_met);
  EXPECT_EQ(goal_of({square}, "1x1").state, State::no_data);
  EXPECT_DOUBLE_EQ(goal_of({pixels}, "NHWC, batch 1: 1x1").measured, 1.02);
}

TEST(ConvGoals, HoldTwoThreadsAgainstOneOfTheSameLayer) {
  const ConvCase one = made_up_convolution({{"spjit", 18}, {"onednn", 19}});
  ConvCase two = made_up_convolution({{"spjit", 10}, {"onednn", 10}});
  two.threads = 2;
  ConvCase alone = pointwise(two);

  EXPECT_DOUBLE_EQ(goal_of({one, two, alone}, "two threads").measured, 1.8);
  EXPECT_EQ(goal_of({one, two, alone}, "two threads").state, State::met);
  EXPECT_EQ(goal_of({one, two, alone}, "two threads").where, "2 layers; oneDNN's fastest: 1.90 x");
  EXPECT_EQ(goal_of({one, alone}, "two threads").state, State::no_data);
}

TEST(ConvSpeedups, ListTheLeastFirst) {
  const std::vector<ConvCase> cases = {
      made_up_convolution({{"spjit", 10}, {"onednn", 30}, {"unrolled", 5}}),
      made_up_convolution(
          {{"spjit", 10}, {"spjit-nhwc", 20}, {"onednn", 10}, {"csr", 9}, {"csr-nhwc", 10}})};

  const auto against_dense = worst_against_dense(cases, 2);
  const auto choices = worst_choices(cases, 9);

  ASSERT_EQ(against_dense.size(), 2U);
  EXPECT_DOUBLE_EQ(against_dense[0].speedup, 0.5);
  EXPECT_THAT(against_dense[0].where, HasSubstr("spjit-nhwc 20 us (compact), onednn 10 us"));
  EXPECT_DOUBLE_EQ(against_dense[1].speedup, 1);
  ASSERT_EQ(choices.size(), 3U);
  EXPECT_THAT(choices[0].where, HasSubstr("unrolled 5 us"));
  EXPECT_DOUBLE_EQ(choices[2].speedup, 0.9);
  EXPECT_THAT(worst_choices(std::vector{made_up_convolution({{"spjit", 1}, {"onednn", 1}})}, 9),
              IsEmpty());
}

}  // namespace

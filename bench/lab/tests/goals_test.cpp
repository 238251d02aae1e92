#include "bench/lab/goals.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "bench/lab/tests/made_up_case.hpp"
#include "bench/layer/way.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;
using testing::Each;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing_support::conv_case;
using testing_support::host_case;
using testing_support::layer_case;
using State = GoalResult::State;
using Cases = std::vector<Case>;
using Goals = std::vector<Goal> (*)(std::span<const Case>);

/// The first whose text has it.
GoalResult find(Goals goals, const Cases& cases, const std::string& text) {
  for (const GoalResult& result : evaluate(goals(cases), cases, 2)) {
    if (result.goal.text.find(text) != std::string::npos) return result;
  }
  ADD_FAILURE() << "no goal says '" << text << "'";
  return {};
}

Goal half_of_us(Goal::Over over) {
  Goal goal;
  goal.text = "made up";
  goal.wanted = 1.08;
  goal.at_least = false;
  goal.over = over;
  goal.figure = [](const Case& one) -> std::optional<Figure> {
    if (one.hot) return {};
    return Figure{one.timings.front().time.median_us / 2, describe(one),
                  static_cast<double>(one.layers)};
  };
  return goal;
}

TEST(Goals, AreAMeanOrTheWorst) {
  Cases cases = {layer_case("layout", {{"a", 2}}), layer_case("layout", {{"a", 8}}),
                 layer_case("layout", {{"a", 99}})};
  cases[0].layers = 3;
  cases[2].hot = true;

  const GoalResult mean = evaluate(half_of_us(Goal::Over::mean), cases, 1);
  const GoalResult worst = evaluate(half_of_us(Goal::Over::worst), cases, 1);

  EXPECT_NEAR(mean.measured, std::sqrt(2), 1e-9) << "4^(1/4): weights count";
  EXPECT_EQ(mean.where, "4 cases");
  EXPECT_EQ(mean.cases, 2U);
  EXPECT_EQ(worst.measured, 4);
  EXPECT_EQ(worst.where, "minilm-80 100x200 n=64 t=1 cold");
  EXPECT_THAT(worst.worst, SizeIs(1));
  EXPECT_EQ(worst.state, State::not_met);
}

TEST(Goals, AreMissedByAHundredthThatShows) {
  const auto state = [](double us) {
    return evaluate(half_of_us(Goal::Over::worst), Cases{layer_case("", {{"a", us}})}, 1).state;
  };
  EXPECT_EQ(state(2 * 1.0849), State::met);
  EXPECT_EQ(state(2 * 1.0851), State::not_met);
}

TEST(Goals, HaveNoDataWithoutCases) {
  for (const auto& goals : {host_goals({}), conv_goals({})}) {
    EXPECT_GE(goals.size(), 20U);
    EXPECT_THAT(evaluate(goals, {}, 3), Each(Field(&GoalResult::state, State::no_data)));
  }
  EXPECT_THAT(layer_goals({}), IsEmpty());
}

TEST(Goals, AreALineAndJson) {
  const Cases cases = {layer_case("layout", {{"a", 3}})};
  const GoalResult result = evaluate(half_of_us(Goal::Over::worst), cases, 1);

  const nlohmann::json json = to_json(result);

  EXPECT_THAT(to_text(result), HasSubstr("NOT MET      1.50 x          made up"));
  EXPECT_EQ(json.at("state"), "NOT MET");
  EXPECT_EQ(json.at("wanted"), 1.08);
  EXPECT_EQ(json.at("over"), "worst");
  EXPECT_EQ(json.at("worst").size(), 1U);
  EXPECT_FALSE(json.contains("about"));
}

TEST(HostGoals, PeakGoalTakesTheWorstCaseThatFits) {
  // Of 100 GFLOP/s: 2 * 26214 * 128 / 1e5 us.
  const double peak_us = 2.0 * 26214 * 128 / 1e5;
  const Case good = host_case(512, 512, 0.9, {{"spjit", peak_us / 0.97}});
  Case bad = host_case(512, 512, 0.9, {{"spjit", peak_us / 0.5}});
  bad.workload = "slow one";
  Case other_n = bad;
  other_n.n = 512;

  const GoalResult met = find(host_goals, {good, other_n}, "512 x 512, 90 %");
  const GoalResult missed = find(host_goals, {good, bad}, "512 x 512, 90 %");

  EXPECT_EQ(met.state, State::met);
  EXPECT_NEAR(met.measured, 97, 1e-9);
  EXPECT_EQ(missed.state, State::not_met);
  EXPECT_NEAR(missed.measured, 50, 1e-9);
  EXPECT_THAT(missed.where, HasSubstr("slow one"));
}

TEST(HostGoals, SpeedupOverDenseIsAGeometricMean) {
  const Cases cases = {host_case(512, 512, 0.9, {{"spjit", 10}, {"openblas", 40}}),
                       host_case(256, 64, 0.9, {{"spjit", 10}, {"openblas", 160}}),
                       host_case(64, 64, 0.9, {{"spjit", 10}})};

  const GoalResult goal = find(host_goals, cases, "8 x OpenBLAS");

  EXPECT_NEAR(goal.measured, 8, 1e-9);
  EXPECT_EQ(goal.where, "2 cases");
}

TEST(HostGoals, TwoThreadsAreComparedWithTheSameCaseOnOne) {
  const Case one = host_case(1024, 512, 0.8, {{"spjit", 100}});
  Case two = host_case(1024, 512, 0.8, {{"spjit", 50}});
  two.threads = 2;
  Case small = host_case(64, 64, 0.5, {{"spjit", 10}});
  small.threads = 2;

  const GoalResult goal = find(host_goals, {one, two, small}, "two threads");

  EXPECT_DOUBLE_EQ(goal.measured, 2);
  EXPECT_EQ(goal.state, State::met);
}

TEST(HostGoals, CompileGoalsAreUpperBounds) {
  const Case quick = host_case(512, 512, 0.9, {{"spjit", 10}});
  Case slow = quick;
  slow.facts["cold_compile_ms"] = 60;

  EXPECT_EQ(find(host_goals, {quick}, "cold compile").state, State::met);
  EXPECT_EQ(find(host_goals, {quick}, "warm cache hit of 512").state, State::met);
  EXPECT_NEAR(find(host_goals, {quick}, "encoding").measured, 1e5 / 26214, 0.01);
  EXPECT_EQ(find(host_goals, {quick, slow}, "cold compile").state, State::not_met);
  EXPECT_DOUBLE_EQ(find(host_goals, {quick, slow}, "cold compile").measured, 60);
}

TEST(LayerGoals, KeepThreadsAndCachesApart) {
  Cases cases;
  for (const double us : {20.0, 10.0, 8.0}) {
    cases.push_back(layer_case("layout", {{"features", 10}, {"tokens", us}}));
  }
  cases[0].threads = 2;
  cases[1].hot = true;

  const auto results = evaluate(layer_goals(cases), cases, 1);

  ASSERT_EQ(results.size(), 6U) << "the mean and the worst of each";
  EXPECT_EQ(results[0].goal.text, "layout: tokens, t=1 cold, mean <= 1.08");
  EXPECT_NEAR(results[0].measured, 0.8, 1e-9);
  EXPECT_EQ(results[1].goal.text, "layout: tokens, t=1 cold, worst <= 1.25");
  EXPECT_EQ(results[2].goal.about.at("caches"), "hot");
  EXPECT_EQ(results[4].goal.about.at("threads"), 2);
  EXPECT_NEAR(results[4].measured, 2, 1e-9);
  EXPECT_EQ(results[5].where, "minilm-80 100x200 n=64 t=2 cold compact (compact)");
}

TEST(LayerGoals, OfAnEpilogueAreOfLongRows) {
  Case shorter = layer_case("epilogue", {{"product", 10}, {"fused", 20}, {"apart", 30}});
  shorter.nnz = 3999;
  const Cases cases = {
      shorter, layer_case("epilogue-tokens", {{"product", 10}, {"fused", 10.4}, {"apart", 30}})};

  const auto results = evaluate(layer_goals(cases), cases, 1);

  ASSERT_EQ(results.size(), 4U);
  EXPECT_EQ(results[0].goal.text, "epilogue-tokens: fused, t=1 cold, mean <= 1.05");
  EXPECT_DOUBLE_EQ(results[0].measured, 1.04);
  EXPECT_EQ(results[1].state, State::no_goal);
  EXPECT_EQ(results[2].goal.about.at("way"), "apart");
}

TEST(LayerGoals, OfValuesAreAlsoMillisecondsAMillion) {
  Case one = layer_case("values", {{"own values", 10}, {"buffer", 10.2}});
  one.timings[1].values_ms = 0.03;  // of 5000 values

  const auto results = evaluate(layer_goals(Cases{one}), Cases{one}, 1);

  ASSERT_EQ(results.size(), 4U);
  EXPECT_EQ(results[3].goal.unit, "ms");
  EXPECT_DOUBLE_EQ(results[3].measured, 6);
  EXPECT_EQ(results[3].state, State::not_met);
}

TEST(LayerGoals, AreThereForWaysOfEveryComparison) {
  for (const Comparison& comparison : list_comparisons()) {
    const Cases cases = {layer_case(
        comparison.name, {{comparison.ways[0].name, 10}, {comparison.ways[1].name, 10}})};
    const auto goals = layer_goals(cases);
    ASSERT_EQ(goals.size(), 2U);
    EXPECT_TRUE(goals.front().wanted) << comparison.name;
  }
}

Case pointwise(const testing_support::Medians& ways) {
  return conv_case(ways, {.channels = 64, .height = 56, .width = 56});
}

TEST(ConvGoals, MeansCountAShapeAsOftenAsItIsThereAndTakeTheFastestOfOneDnn) {
  Case often = conv_case({{"spjit", 10}, {"onednn-nchw", 50}, {"onednn", 40}, {"openblas", 2}});
  Case once = conv_case({{"spjit", 10}, {"onednn", 10}, {"onednn-nhwc", 3}});
  once.timings[2].failed = "wrong";
  often.layers = 3;
  once.layers = 1;

  const GoalResult mean = find(conv_goals, {often, once}, "NCHW, batch 1: 90 % sparse: mean");

  EXPECT_NEAR(mean.measured, 2.8284, 1e-4) << "4^(3/4)";
  EXPECT_EQ(mean.state, State::met);
  EXPECT_EQ(mean.where, "4 layers");
  EXPECT_EQ(find(conv_goals, {often, once}, "every layer").state, State::met);
  EXPECT_EQ(find(conv_goals, {often, once, once}, "90 % sparse: mean").state, State::not_met);
}

TEST(ConvGoals, SayWhichLayerIsSlowerThanDenseAndWhatWasChosen) {
  const Case slow = conv_case({{"spjit", 10}, {"onednn-nhwc", 9}});
  Case slower_and_dense = conv_case({{"spjit", 10}, {"onednn-nhwc", 8}});
  slower_and_dense.timings[0].chosen = {"dense"};

  const GoalResult all = find(conv_goals, {slow, slower_and_dense}, "every layer");
  const GoalResult chosen = find(conv_goals, {slow, slower_and_dense}, "not by family dense");

  EXPECT_EQ(all.state, State::not_met);
  EXPECT_DOUBLE_EQ(all.measured, 0.8);
  EXPECT_DOUBLE_EQ(chosen.measured, 0.9);
  EXPECT_THAT(chosen.where, HasSubstr("resnet50-90 64 filters, 64x56x56"));
  EXPECT_THAT(chosen.where, HasSubstr("cold: onednn-nhwc 9 us over spjit 10 us (compact)"));
}

TEST(ConvGoals, KeepSparsitiesLayoutsBatchesAndCachesApart) {
  const auto at = [](const std::string& network, Case one) {
    one.workload = network;
    return one;
  };
  Case pixels = at("resnet50-80", conv_case({{"spjit-nhwc", 10}, {"onednn", 16}}));
  pixels.n = 8;
  Case hot = at("resnet50-80", conv_case({{"spjit", 1}, {"onednn", 99}}));
  hot.hot = true;
  const Cases cases = {at("resnet50-80", conv_case({{"spjit", 10}, {"onednn", 14}})), pixels, hot,
                       at("rapidocr-det-80", conv_case({{"spjit", 1}, {"onednn", 99}}))};

  EXPECT_DOUBLE_EQ(find(conv_goals, cases, "NCHW, batch 1: 80 %").measured, 1.4);
  EXPECT_EQ(find(conv_goals, cases, "NCHW, batch 1: 80 %").state, State::not_met);
  EXPECT_EQ(find(conv_goals, cases, "NHWC, batch 8: 80 %").state, State::met);
  EXPECT_EQ(find(conv_goals, cases, "NHWC, batch 1: 80 %").state, State::no_data);
  EXPECT_EQ(find(conv_goals, cases, "NCHW, batch 1: 90 % sparse: mean").state, State::no_data);
}

TEST(ConvGoals, OfPatchesAreOf3x3AndThoseOfProductsOf1x1) {
  const Cases cases = {conv_case({{"spjit", 10}, {"im2col+spmm", 14}}),
                       pointwise({{"spjit", 10.4}, {"im2col+spmm", 10}})};
  const Cases pixels = {
      pointwise({{"spjit-nhwc", 10.2}, {"im2col+spmm", 9}, {"im2col+spmm-nhwc", 10}})};

  EXPECT_DOUBLE_EQ(find(conv_goals, cases, "3x3").measured, 1.4);
  EXPECT_EQ(find(conv_goals, cases, "3x3").state, State::met);
  EXPECT_DOUBLE_EQ(find(conv_goals, cases, "1x1").measured, 1.04);
  EXPECT_EQ(find(conv_goals, cases, "1x1").state, State::not_met);
  EXPECT_DOUBLE_EQ(find(conv_goals, pixels, "NHWC, batch 1: 1x1").measured, 1.02);
}

TEST(ConvGoals, HoldTwoThreadsAgainstOneOfTheSameLayer) {
  const Case one = conv_case({{"spjit", 18}, {"onednn", 19}});
  Case two = conv_case({{"spjit", 10}, {"onednn", 10}});
  two.threads = 2;
  Case alone = pointwise({{"spjit", 10}, {"onednn", 10}});
  alone.threads = 2;

  EXPECT_DOUBLE_EQ(find(conv_goals, {one, two, alone}, "two threads: mean").measured, 1.8);
  EXPECT_EQ(find(conv_goals, {one, two, alone}, "two threads: mean").state, State::met);
  EXPECT_DOUBLE_EQ(find(conv_goals, {one, two, alone}, "two threads: oneDNN").measured, 1.9);
  EXPECT_EQ(find(conv_goals, {one, alone}, "two threads: mean").state, State::no_data);
}

TEST(ConvGoals, ListLayersThatDoWorst) {
  const Cases cases = {
      conv_case({{"spjit", 10}, {"onednn", 30}, {"unrolled", 5}}),
      conv_case({{"spjit", 10}, {"spjit-nhwc", 20}, {"onednn", 10}, {"csr", 9}, {"csr-nhwc", 10}})};

  const GoalResult dense = find(conv_goals, cases, "spjit-nhwc: least times oneDNN's fastest");
  const GoalResult family = find(conv_goals, cases, "spjit: least times the fastest family");

  EXPECT_DOUBLE_EQ(dense.measured, 0.5);
  EXPECT_EQ(dense.state, State::no_goal);
  ASSERT_EQ(family.worst.size(), 2U);
  EXPECT_THAT(family.worst[0].where, HasSubstr("unrolled 5 us over spjit 10 us"));
  EXPECT_DOUBLE_EQ(family.worst[1].value, 0.9);
}

}  // namespace

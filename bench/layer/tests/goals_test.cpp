#include "bench/layer/goals.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bench/layer/tests/made_up_case.hpp"
#include "bench/layer/way.hpp"

namespace {

using namespace spjit::bench;
using spjit::testing_support::made_up_case;
using testing::HasSubstr;
using testing::IsEmpty;

LayerCase layout_case(double tokens_us) {
  return made_up_case("layout", {{"features", 10}, {"tokens", tokens_us}});
}

TEST(LayerGoals, AreAMeanAndTheWorst) {
  const std::vector<LayerCase> cases = {layout_case(8), layout_case(12.5), layout_case(10)};

  const auto summaries = summarize(cases, 2);

  ASSERT_EQ(summaries.size(), 1U);
  const LayerSummary& tokens = summaries.front();
  EXPECT_EQ(tokens.way, "tokens");
  EXPECT_EQ(tokens.cases, 3U);
  EXPECT_NEAR(tokens.mean.measured, 1, 1e-9);
  EXPECT_DOUBLE_EQ(tokens.mean.wanted.value_or(0), 1.08);
  EXPECT_FALSE(tokens.mean.missed());
  EXPECT_DOUBLE_EQ(tokens.worst.measured, 1.25);
  EXPECT_FALSE(tokens.worst.missed());
  ASSERT_EQ(tokens.worst_cases.size(), 2U);
  EXPECT_EQ(tokens.worst_cases[0].where, "minilm-80 100x200 n=64 compact (compact)");
  EXPECT_DOUBLE_EQ(tokens.worst_cases[1].figure, 1);
}

TEST(LayerGoals, AreMissedByAHundredthThatShows) {
  EXPECT_FALSE((GoalFigure{1.0849, 1.08}.missed()));
  EXPECT_TRUE((GoalFigure{1.0851, 1.08}.missed()));
  EXPECT_FALSE((GoalFigure{100, {}}.missed()));
  EXPECT_TRUE(summarize(std::vector{layout_case(13)}, 1).front().worst.missed());
}

TEST(LayerGoals, KeepThreadsAndCachesApart) {
  std::vector<LayerCase> cases = {layout_case(20), layout_case(10), layout_case(10)};
  cases[0].threads = 2;
  cases[1].hot = true;

  const auto summaries = summarize(cases, 1);

  ASSERT_EQ(summaries.size(), 3U);
  EXPECT_EQ(summaries[0].threads, 1);
  EXPECT_FALSE(summaries[0].hot);
  EXPECT_TRUE(summaries[1].hot);
  EXPECT_EQ(summaries[2].threads, 2);
  EXPECT_DOUBLE_EQ(summaries[2].mean.measured, 2);
}

TEST(LayerGoals, OfAnEpilogueAreOfLongRows) {
  LayerCase shorter = made_up_case("epilogue", {{"product", 10}, {"fused", 20}, {"apart", 30}});
  shorter.nnz = 3999;
  const LayerCase longer =
      made_up_case("epilogue-tokens", {{"product", 10}, {"fused", 10.4}, {"apart", 30}});

  const auto summaries = summarize(std::vector{shorter, longer}, 1);

  ASSERT_EQ(summaries.size(), 2U);
  EXPECT_EQ(summaries[0].comparison, "epilogue-tokens");
  EXPECT_DOUBLE_EQ(summaries[0].mean.measured, 1.04);
  EXPECT_DOUBLE_EQ(summaries[0].mean.wanted.value_or(0), 1.05);
  EXPECT_EQ(summaries[1].way, "apart");
  EXPECT_FALSE(summaries[1].mean.wanted);
}

TEST(LayerGoals, OfValuesAreAlsoMillisecondsAMillion) {
  LayerCase one = made_up_case("values", {{"own values", 10}, {"buffer", 10.2}});
  one.timings[1].prepare_us = 30;  // of 5000 values

  const auto summaries = summarize(std::vector{one}, 1);

  ASSERT_EQ(summaries.size(), 2U);
  EXPECT_EQ(summaries[1].unit, "ms");
  EXPECT_DOUBLE_EQ(summaries[1].worst.measured, 6);
  EXPECT_TRUE(summaries[1].worst.missed());
}

TEST(LayerGoals, AreThereForWaysOfEveryComparison) {
  for (const Comparison& comparison : list_comparisons()) {
    const LayerCase one = made_up_case(
        comparison.name, {{comparison.ways[0].name, 10}, {comparison.ways[1].name, 10}});
    const auto summaries = summarize(std::vector{one}, 1);
    ASSERT_EQ(summaries.size(), 1U);
    EXPECT_TRUE(summaries.front().mean.wanted) << comparison.name;
  }
}

TEST(LayerGoals, LeaveOutWhatWasNotTimed) {
  EXPECT_THAT(summarize(std::vector{made_up_case("layout", {{"features", 10}})}, 1), IsEmpty());
  EXPECT_THAT(summarize({}, 1), IsEmpty());
}

TEST(LayerGoals, AreATableAndJson) {
  const auto summaries = summarize(std::vector{layout_case(13)}, 1);

  const std::string text = to_text(summaries);
  const nlohmann::json json = to_json(summaries.front());

  EXPECT_THAT(text, HasSubstr("1.30 NOT 1.08"));
  EXPECT_THAT(text, HasSubstr("n=64 compact (compact)"));
  EXPECT_EQ(json.at("worst").at("missed"), true);
  EXPECT_EQ(json.at("worst_cases").size(), 1U);
  EXPECT_EQ(json.at("caches"), "cold");
}

}  // namespace

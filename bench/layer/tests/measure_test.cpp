#include "bench/layer/measure.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "bench/model/tests/three_layers.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;
using namespace spjit::testing_support;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

/// Two layers of one shape, and two others.
LoadedNetwork four_layers() {
  std::vector<NetworkLayer> layers = three_layers();
  layers.push_back({"square again", random_matrix(30, 30, 0.5, 4)});
  return {"made up", std::move(layers)};
}

LayerBenchSettings quick() {
  LayerBenchSettings settings;
  settings.timing.budget_ms = 0;
  settings.timing.min_samples = 2;
  return settings;
}

Comparison comparison_of(const std::string& name) { return list_comparisons({name}).front(); }

TEST(GroupByShape, KeepsTheOrderOfTheNetwork) {
  EXPECT_THAT(group_by_shape(four_layers().layers),
              ElementsAre(ElementsAre(0), ElementsAre(1, 3), ElementsAre(2)));
}

TEST(MeasureComparison, TimesEveryWayOfEveryComparison) {
  for (const Comparison& comparison : list_comparisons()) {
    const std::int64_t n = comparison.n.size() == 1 ? comparison.n.front() : 16;
    const auto result = measure_comparison(four_layers(), comparison, {n}, quick());

    for (const WayFailure& failure : result.failures) {
      ADD_FAILURE() << comparison.name << ", " << failure.way << ": " << failure.reason;
    }
    ASSERT_THAT(result.cases, SizeIs(3)) << comparison.name;
    const LayerCase& squares = result.cases[1];
    EXPECT_EQ(squares.layers, 2);
    EXPECT_EQ(squares.rows, 30);
    EXPECT_EQ(squares.nnz, 2 * 450);
    ASSERT_THAT(squares.timings, SizeIs(comparison.ways.size()));
    for (const WayTiming& timing : squares.timings) {
      EXPECT_GT(timing.time.median_us, 0);
      EXPECT_EQ(timing.time.samples, 2);
      EXPECT_FALSE(timing.families.empty());
      EXPECT_EQ(timing.paired.has_value(), &timing != &squares.timings.front());
    }
  }
}

TEST(MeasureComparison, TakesOneLayerOfAShapeWhereItIsHot) {
  const auto result =
      measure_comparison(four_layers(), comparison_of("epilogue"), {16, 2, true}, quick());

  ASSERT_THAT(result.cases, SizeIs(3));
  EXPECT_EQ(result.cases[1].layers, 1);
  EXPECT_TRUE(result.cases[1].hot);
  EXPECT_EQ(result.cases[1].threads, 2);
}

TEST(MeasureComparison, SaysWhatPreparingValuesTakes) {
  const auto result = measure_comparison(four_layers(), comparison_of("values"), {16}, quick());

  ASSERT_THAT(result.cases, SizeIs(3));
  EXPECT_FALSE(result.cases[0].find("own values")->prepare_us);
  EXPECT_GT(result.cases[0].find("buffer")->prepare_us.value_or(0), 0);
}

TEST(MeasureComparison, DoesNotTimeWhatIsWrong) {
  LoadedNetwork network = four_layers();
  // Sums that are finite in float64 and infinite in float.
  for (float& value : network.layers[1].matrix.values) value = 3e38F;

  const auto result = measure_comparison(network, comparison_of("runtime-n"), {16}, quick());

  EXPECT_THAT(result.cases, IsEmpty());
  ASSERT_THAT(result.failures, SizeIs(1));
  EXPECT_THAT(result.failures[0].reason, StartsWith("wrong: layer 1 (square)"));
}

/// What is compiled for host-generic rounds each product: right, but other bits.
TEST(MeasureComparison, DoesNotTimeOtherBitsThanTheFirst) {
  if (Target().isa() == HostIsa::generic) GTEST_SKIP() << "this CPU computes as host-generic";
  Comparison comparison = comparison_of("epilogue-tokens");
  Way other = comparison.ways[0];
  other.name = "rounded twice";
  other.target = Target(HostIsa::generic);
  comparison.ways.push_back(other);

  const auto result = measure_comparison(four_layers(), comparison, {16}, quick());

  ASSERT_THAT(result.failures, SizeIs(1));
  EXPECT_EQ(result.failures[0].way, "rounded twice");
  EXPECT_THAT(result.failures[0].reason,
              AllOf(StartsWith("wrong: layer "), HasSubstr("; expected the bits of ")));
  ASSERT_THAT(result.cases, SizeIs(3));
  EXPECT_THAT(result.cases[0].timings, SizeIs(3));
}

TEST(MeasureComparison, GoesOnWithoutAWayThatCannot) {
  Comparison comparison = comparison_of("runtime-n");
  comparison.ways[1].typical_n = 0;

  const auto result = measure_comparison(four_layers(), comparison, {16}, quick());

  ASSERT_THAT(result.failures, SizeIs(1));
  EXPECT_EQ(result.failures[0].way, "any n, made for 16");
  EXPECT_THAT(result.failures[0].reason, HasSubstr("n is 0"));
  ASSERT_THAT(result.cases, SizeIs(3));
  EXPECT_THAT(result.cases[0].timings, SizeIs(3));
}

}  // namespace

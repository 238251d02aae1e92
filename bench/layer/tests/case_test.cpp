#include "bench/layer/case.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "bench/layer/tests/made_up_case.hpp"

namespace {

using namespace spjit::bench;
using spjit::testing_support::made_up_case;

TEST(LayerCase, HoldsWaysAgainstTheFirst) {
  LayerCase one = made_up_case("layout", {{"features", 10}, {"tokens", 12}});
  one.timings[0].time.noise = 0.03;
  one.timings[1].time.noise = 0.04;

  EXPECT_DOUBLE_EQ(one.ratio("tokens").value_or(0), 1.2);
  EXPECT_DOUBLE_EQ(one.ratio("features").value_or(0), 1);
  EXPECT_FALSE(one.ratio("panels"));
  EXPECT_NEAR(one.error("tokens"), 1.2533 * 0.05 / 3, 1e-6) << "of nine samples";
  EXPECT_EQ(one.error("panels"), 0);
}

TEST(LayerCase, TakesPairsOfPassesBeforeMedians) {
  LayerCase one = made_up_case("layout", {{"features", 10}, {"tokens", 12}});
  // The machine was slow in the second round, for both.
  one.timings[1].paired =
      paired_ratio(std::vector{11.0, 33.0, 10.0}, std::vector{10.0, 30.0, 10.0});

  EXPECT_DOUBLE_EQ(one.ratio("tokens").value_or(0), 1.1);
  EXPECT_NEAR(one.error("tokens"), 0, 1e-9) << "most pairs have the same ratio";
  EXPECT_DOUBLE_EQ(layer_case_of(to_json(one)).ratio("tokens").value_or(0), 1.1);
}

TEST(LayerCase, CountsEntriesOfARowOverAllLayers) {
  LayerCase one = made_up_case("layout", {});
  one.rows = 100;
  one.layers = 3;
  one.nnz = 6000;
  EXPECT_DOUBLE_EQ(one.nnz_of_row(), 20);
  EXPECT_EQ(LayerCase{}.nnz_of_row(), 0);
}

TEST(LayerCase, ComesBackFromJson) {
  LayerCase one = made_up_case("values-tokens", {{"own values", 10}, {"buffer", 11}});
  one.hot = true;
  one.threads = 2;
  one.timings[1].prepare_us = 5;
  one.timings[1].families = {"compact", "csr"};

  const nlohmann::json json = to_json(one);

  EXPECT_EQ(to_json(layer_case_of(json)), json);
  EXPECT_EQ(json.at("caches"), "hot");
  EXPECT_EQ(json.at("timings")[0].at("prepare_us"), nullptr);
  EXPECT_DOUBLE_EQ(layer_case_of(json).ratio("buffer").value_or(0), 1.1);
}

}  // namespace

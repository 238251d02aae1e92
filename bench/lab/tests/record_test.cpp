#include "bench/lab/record.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "bench/lab/tests/made_up_case.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;
using namespace spjit::testing_support;

TEST(Case, HoldsWaysAgainstTheFirst) {
  Case one = layer_case("layout", {{"features", 10}, {"tokens", 12}});

  EXPECT_DOUBLE_EQ(one.ratio("tokens").value_or(0), 1.2);
  EXPECT_DOUBLE_EQ(one.ratio("features").value_or(0), 1);
  EXPECT_FALSE(one.ratio("panels"));
}

TEST(Case, TakesPairsOfPassesBeforeMedians) {
  Case one = layer_case("layout", {{"features", 10}, {"tokens", 12}});
  // The machine was slow in the second round, for both.
  one.timings[1].paired =
      paired_ratio(std::vector{11.0, 33.0, 10.0}, std::vector{10.0, 30.0, 10.0});

  EXPECT_DOUBLE_EQ(one.ratio("tokens").value_or(0), 1.1);
  EXPECT_NEAR(one.timings[1].paired->error, 0, 1e-9) << "most pairs have the same ratio";
}

TEST(Case, HasNoRatioOfWhatFailed) {
  Case one = layer_case("layout", {{"features", 10}, {"tokens", 12}});
  one.timings[0].failed = "wrong";

  EXPECT_EQ(one.find("features"), nullptr);
  EXPECT_FALSE(one.ratio("tokens"));
}

TEST(Case, IsWrittenWithNullsForWhatHasNoTime) {
  Case one = layer_case("values-tokens", {{"own values", 10}, {"buffer", 11}, {"other", 12}});
  one.hot = true;
  one.threads = 2;
  one.layer = "query";
  one.facts["origin"] = "drawn";
  one.timings[1].values_ms = 5;
  one.timings[1].prepare_ms = 6;
  one.timings[1].layers_us = {4, 7};
  one.timings[1].paired = PairedRatio{1.05, 0.01};
  one.timings[1].chosen = {"compact", "csr"};
  one.timings[2].failed = "no such way";

  const nlohmann::json json = to_json(one);

  EXPECT_EQ(json.at("caches"), "hot");
  EXPECT_EQ(json.at("timings")[0].at("median_us"), 10);
  EXPECT_EQ(json.at("timings")[0].at("ratio"), nullptr);
  EXPECT_EQ(json.at("timings")[2].at("median_us"), nullptr);
  EXPECT_EQ(json.at("timings")[1].at("ratio"), 1.05);
  EXPECT_EQ(json.at("timings")[1].at("layers_us"), (std::vector<double>{4, 7}));
}

TEST(ConvCase, NamesItsKernel) {
  Convolution shape = padded_3x3(64, 56, 56);
  const auto kernel = [&] { return testing_support::conv_case({}, shape).facts.at("kernel"); };
  EXPECT_EQ(kernel(), "3x3");
  shape.groups = 8;
  EXPECT_EQ(kernel(), "grouped 3x3");
  shape.groups = 64;
  EXPECT_EQ(kernel(), "depthwise 3x3");
  shape = {.channels = 64, .height = 56, .width = 56};
  EXPECT_EQ(kernel(), "1x1");
  shape.stride_height = 2;
  EXPECT_EQ(kernel(), "1x1 strided");
}

TEST(ConvCase, CountsWhatADenseConvolutionDoes) {
  EXPECT_DOUBLE_EQ(testing_support::conv_case({}).facts.at("dense_gflop").get<double>(),
                   2e-9 * 64 * 64 * 9 * 56 * 56);
  Convolution depthwise = padded_3x3(64, 56, 56);
  depthwise.groups = 64;
  EXPECT_DOUBLE_EQ(testing_support::conv_case({}, depthwise).facts.at("dense_gflop").get<double>(),
                   2e-9 * 64 * 9 * 56 * 56);
}

}  // namespace

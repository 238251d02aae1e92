#include "bench/convolution/case.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/convolution/tests/made_up_convolution.hpp"

namespace {

using namespace spjit::bench;
using spjit::testing_support::made_up_convolution;

TEST(ConvCase, NamesItsKernel) {
  ConvCase one = made_up_convolution({});
  EXPECT_EQ(one.kernel(), "3x3");
  one.shape.groups = 8;
  EXPECT_EQ(one.kernel(), "grouped 3x3");
  one.shape.groups = 64;
  EXPECT_EQ(one.kernel(), "depthwise 3x3");
  one.shape = {.channels = 64, .height = 56, .width = 56};
  EXPECT_EQ(one.kernel(), "1x1");
  one.shape.stride_height = 2;
  EXPECT_EQ(one.kernel(), "1x1 strided");
}

TEST(ConvCase, CountsWhatADenseConvolutionDoes) {
  ConvCase one = made_up_convolution({});
  one.batch = 8;
  EXPECT_DOUBLE_EQ(one.dense_gflop(), 2e-9 * 64 * 64 * 9 * 56 * 56 * 8);
  one.shape.groups = 64;
  EXPECT_DOUBLE_EQ(one.dense_gflop(), 2e-9 * 64 * 9 * 56 * 56 * 8);
}

TEST(ConvCase, DenseIsTheFastestOfOneDnnsWays) {
  ConvCase one = made_up_convolution(
      {{"spjit", 1}, {"onednn", 9}, {"onednn-nchw", 12}, {"onednn-nhwc", 8}, {"openblas", 2}});
  EXPECT_EQ(one.dense()->library, "onednn-nhwc");

  one.timings[3].failed = "wrong";

  EXPECT_EQ(one.dense()->library, "onednn");
  EXPECT_EQ(one.find("onednn-nhwc"), nullptr);
  EXPECT_EQ(made_up_convolution({{"spjit", 1}}).dense(), nullptr);
}

TEST(ConvCase, ComesBackFromJson) {
  ConvCase one = made_up_convolution({{"spjit", 10}, {"xnnpack", 11}});
  one.hot = true;
  one.threads = 2;
  one.batch = 8;
  one.timings[1].failed = "3x3";

  const nlohmann::json json = to_json(one);

  EXPECT_EQ(to_json(conv_case_of(json)), json);
  EXPECT_EQ(conv_case_of(json).shape, one.shape);
  EXPECT_EQ(json.at("caches"), "hot");
  EXPECT_EQ(json.at("timings")[0].at("median_us"), 10);
  EXPECT_EQ(json.at("timings")[1].at("median_us"), nullptr);
}

}  // namespace

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/side_by_side/onnx_model.hpp"
#include "bench/side_by_side/peers.hpp"
#include "spjit/error.hpp"

namespace {

using namespace spjit::side_by_side;
using spjit::CsrMatrix;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string bytes_of(const std::vector<float>& floats) {
  return {reinterpret_cast<const char*>(floats.data()), floats.size() * sizeof(float)};
}

TEST(OnnxMatmulModel, HasTheWeightsTransposed) {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};

  const std::string model = onnx_matmul_model({2, 3, 5, a.data()});

  EXPECT_THAT(model, HasSubstr("MatMul"));
  EXPECT_THAT(model, HasSubstr(bytes_of({1, 4, 2, 5, 3, 6})));
}

TEST(OnnxMatmulModel, RefusesWhatTheFormatDoesNotTake) {
  EXPECT_THAT(
      [] {
        (void)onnx_matmul_model({1 << 20, 1 << 10, 1, nullptr});
      },
      ThrowsMessage<spjit::NotSupported>(HasSubstr("4.3 GB")));
}

TEST(OnnxConvModel, HasItsNodesAndConstants) {
  const std::vector<float> weights = {1, 2, 3, 4};
  const std::vector<float> bias = {5};
  OnnxConvolution of;
  of.x = {1, 1, 4, 4};
  of.y = {1, 1, 3, 3};
  of.weights = {1, 1, 2, 2};
  of.stride = {1, 1};
  of.dilation = {1, 1};
  of.w = weights.data();
  of.bias = bias.data();

  const std::string model = onnx_conv_model(of);

  EXPECT_THAT(model, HasSubstr("Conv"));
  EXPECT_THAT(model, HasSubstr("Relu"));
  EXPECT_THAT(model, HasSubstr(bytes_of(weights)));
  EXPECT_THAT(model, HasSubstr(bytes_of(bias)));
  of.weights[0] = std::int64_t{1} << 30;
  EXPECT_THAT([&] { (void)onnx_conv_model(of); },
              ThrowsMessage<spjit::NotSupported>(HasSubstr("17.2 GB")));
}

/// With the library where scripts/build/setup_peers.sh puts it.
class OnnxRuntime : public testing::Test {
 protected:
  void SetUp() override {
    if (!peer_->info().missing.empty()) GTEST_SKIP() << peer_->info().missing;
  }

  std::unique_ptr<Runnable> prepare(const float* b, float* c, int threads) {
    return peer_->prepare({&matrix_, dense_.data(), 2, threads, b, c});
  }

  /// [[1, 2], [0, 3]]
  CsrMatrix matrix_{2, 2, {0, 2, 3}, {0, 1, 1}, {1, 2, 3}};
  std::vector<float> dense_ = {1, 2, 0, 3};
  std::unique_ptr<Peer> peer_ = [] {
    PeerSettings settings;
    settings.onnxruntime_folder = SPJIT_SOURCE_DIR "/build/peers/onnxruntime/lib";
    return make_onnxruntime_peer(settings);
  }();
  std::vector<float> b_ = {1, 2, 3, 4};
  std::vector<float> c_ = {0, 0, 0, 0};
  std::vector<float> d_ = {0, 0, 0, 0};
};

TEST_F(OnnxRuntime, ALayerReadsWhatTheOneBeforeWrote) {
  const auto first = prepare(b_.data(), c_.data(), 1);
  const auto second = prepare(c_.data(), d_.data(), 1);

  first->run();
  second->run();
  first->publish();
  second->publish();

  EXPECT_THAT(c_, ElementsAre(7, 10, 9, 12));
  EXPECT_THAT(d_, ElementsAre(25, 34, 27, 36));
}

TEST_F(OnnxRuntime, WhatItDoesNotWriteShows) {
  const auto layer = prepare(b_.data(), c_.data(), 1);

  layer->publish();

  EXPECT_THAT(c_, Each(testing::Truly([](float value) { return std::isnan(value); })));
}

TEST_F(OnnxRuntime, HasOneNumberOfThreadsAtATime) {
  {
    const auto on_one = prepare(b_.data(), c_.data(), 1);
    EXPECT_THAT([&] { (void)prepare(b_.data(), d_.data(), 2); },
                ThrowsMessage<spjit::NotSupported>(HasSubstr("one of 1 is in use")));
  }
  const auto on_two = prepare(b_.data(), d_.data(), 2);

  on_two->run();
  on_two->publish();

  EXPECT_THAT(d_, ElementsAre(7, 10, 9, 12));
}

TEST_F(OnnxRuntime, ComputesWithoutColumnsOfA) {
  const CsrMatrix no_columns{2, 0, {0, 0, 0}, {}, {}};
  c_ = {1, 1, 1, 1};
  const auto layer = peer_->prepare({&no_columns, dense_.data(), 2, 1, b_.data(), c_.data()});

  layer->run();
  layer->publish();

  EXPECT_THAT(c_, Each(0));
}

}  // namespace

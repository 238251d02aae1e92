#include "bench/convolution/measure.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bench/convolution/tests/small_network.hpp"
#include "spjit/error.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;
using spjit::testing_support::small_network;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

ConvPeerSettings repository_settings() {
  ConvPeerSettings settings;
  settings.onnxruntime_folder = SPJIT_SOURCE_DIR "/build/peers/onnxruntime/lib";
  settings.onednn_folder = SPJIT_SOURCE_DIR "/build/peers/onednn/lib";
  return settings;
}

SequenceOptions two_samples() {
  SequenceOptions options;
  options.budget_ms = 0;
  options.min_samples = 2;
  return options;
}

std::vector<ConvCase> measured(const std::vector<std::unique_ptr<ConvPeer>>& peers,
                               const ConvConditions& conditions = {}, std::int64_t batch = 2) {
  ConvOperands operands(small_network(), batch);
  return measure_convolutions(peers, operands, conditions, repository_settings(), two_samples());
}

/// Adds one to a result of spjit's.
class WrongPeer final : public ConvPeer {
 public:
  WrongPeer() : ConvPeer({"wrong one", "", "jit"}, Layout::row_major) {}

  std::unique_ptr<side_by_side::Runnable> prepare(const ConvProblem& problem) override {
    struct Wrong final : side_by_side::Runnable {
      void run() override {
        right->run();
        y[0] += 1;
      }
      std::unique_ptr<side_by_side::Runnable> right;
      float* y = nullptr;
    };
    if (problem.layer->shape.groups > 1) throw NotSupported("groups");
    auto runnable = std::make_unique<Wrong>();
    runnable->right = right_->prepare(problem);
    runnable->y = problem.y;
    return runnable;
  }

 private:
  std::unique_ptr<ConvPeer> right_ = make_spjit_conv_peer({}, "", Layout::row_major);
};

TEST(GroupByConvolution, KeepsTheOrderOfTheNetwork) {
  EXPECT_THAT(group_by_convolution(small_network()),
              ElementsAre(ElementsAre(0), ElementsAre(1, 3), ElementsAre(2)));
}

TEST(MeasureConvolutions, EveryLibraryIsRight) {
  std::vector<std::string> names = all_conv_peer_names();
  names.insert(names.end(), {"dense", "compact", "csr", "csr-nhwc", "reference"});
  for (const int threads : {1, 2}) {
    for (const ConvCase& one :
         measured(make_conv_peers(repository_settings(), names), {threads, false})) {
      for (const ConvTiming& timing : one.timings) {
        EXPECT_THAT(timing.failed, testing::Not(StartsWith("wrong"))) << timing.library;
        EXPECT_EQ(timing.time.samples, timing.failed.empty() ? 2 : 0) << timing.library;
      }
      for (const char* library :
           {"spjit", "spjit-nhwc", "im2col+spmm", "im2col+spmm-nhwc", "reference"}) {
        ASSERT_NE(one.find(library), nullptr) << library;
        EXPECT_GT(one.find(library)->time.median_us, 0);
        EXPECT_NE(one.find(library)->detail, "");
      }
    }
  }
}

TEST(MeasureConvolutions, WhatIsWrongIsNotTimed) {
  std::vector<std::unique_ptr<ConvPeer>> peers;
  peers.push_back(std::make_unique<WrongPeer>());

  const std::vector<ConvCase> cases = measured(peers);

  ASSERT_THAT(cases, SizeIs(3));
  EXPECT_THAT(cases[0].timings.at(0).failed, StartsWith("wrong: layer 0 (stem): image 0 filter 0"));
  EXPECT_EQ(cases[0].find("wrong one"), nullptr);
  EXPECT_EQ(cases[2].timings.at(0).failed, "groups");
}

TEST(MeasureConvolutions, TakesOneLayerOfAShapeWhereItIsHot) {
  const auto peers = make_conv_peers({}, {"spjit"});

  const std::vector<ConvCase> cases = measured(peers, {1, true});

  ASSERT_THAT(cases, SizeIs(3));
  EXPECT_TRUE(cases[1].hot);
  EXPECT_EQ(cases[1].layers, 2);
  EXPECT_EQ(cases[1].batch, 2);
  EXPECT_GT(cases[1].find("spjit")->time.median_us, 0);
}

TEST(MakeConvPeers, KnowLibrariesAndFamilies) {
  const auto peers = make_conv_peers({}, {"csr-nhwc", "spjit"});
  ASSERT_THAT(peers, SizeIs(2));
  EXPECT_EQ(peers[0]->info().name, "csr-nhwc");
  EXPECT_EQ(peers[0]->layout(), Layout::tokens_major);
  EXPECT_THAT([] { (void)make_conv_peers({}, {"cudnn"}); },
              testing::ThrowsMessage<InvalidArgument>(HasSubstr("no peer 'cudnn'; there are")));
}

TEST(MakeConvPeers, ListWhatIsMissing) {
  ConvPeerSettings settings;
  settings.onnxruntime_folder = "/nowhere";
  const auto peers = make_conv_peers(settings, {"onnxruntime"});
  EXPECT_THAT(peers[0]->info().missing, HasSubstr("/nowhere"));
  EXPECT_TRUE(measured(peers)[0].timings.empty());
}

}  // namespace

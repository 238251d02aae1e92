#include "bench/model/gpu_network.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/side_by_side/cuda/cuda_peers.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;
using side_by_side::CudaPeer;
using side_by_side::DeviceSide;
using side_by_side::DeviceWork;
using side_by_side::Peer;
using side_by_side::Problem;
using side_by_side::WorkMaker;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// Computes nothing: C keeps what it has.
class IdleWork final : public DeviceWork {
 public:
  void enqueue(const float* /*b*/, float* /*c*/, void* /*stream*/) override {}
  [[nodiscard]] std::int64_t a_bytes() const override { return 7; }
};

class IdlePeer final : public CudaPeer {
 public:
  explicit IdlePeer(std::shared_ptr<DeviceSide> side)
      : CudaPeer({"idle", "", "sparse"}, std::move(side)) {}
  WorkMaker maker(const Problem& /*problem*/) override {
    return [](const DeviceBuffer& /*b*/, const DeviceBuffer& /*c*/) {
      return std::make_unique<IdleWork>();
    };
  }
};

/// On the emulated driver, which computes, but in no time that means anything.
class GpuNetworks : public testing::Test {
 protected:
  GpuNetworks() {
    ::setenv("SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA, 1);
    side_ = std::make_shared<DeviceSide>(CudaContext(local_cuda_driver(), 0));
  }

  [[nodiscard]] std::vector<std::unique_ptr<Peer>> peers(const std::vector<std::string>& names) {
    return side_by_side::make_cuda_peers({side_}, names);
  }

  std::shared_ptr<DeviceSide> side_;
};

/// NVRTC or nvJitLink is not there.
bool lacks_compiler(const GpuNetworkTiming& timing) {
  return timing.failed.find("was not found; looked in") != std::string::npos;
}

TEST_F(GpuNetworks, OfAnEncoderComputeEachLayerFromTheOneBefore) {
  GpuNetwork network(encoder_network("tiny-50")->load(), 5, side_);
  GpuNetworkOptions options;
  options.check_only = true;
  const auto timings = network.measure(peers({"spjit", "row-split"}), options);
  ASSERT_THAT(timings, SizeIs(2));
  for (const GpuNetworkTiming& timing : timings) {
    if (lacks_compiler(timing)) GTEST_SKIP() << timing.failed;
    EXPECT_THAT(timing.failed, IsEmpty()) << timing.library;
    EXPECT_THAT(timing.details, SizeIs(6));
    EXPECT_EQ(timing.pass.samples, 0);
  }
}

TEST_F(GpuNetworks, TimePassesAndEachLayer) {
  GpuNetwork network(encoder_network("tiny-90")->load(), 3, side_);
  const auto timings = network.measure(peers({"row-split"}), {1, 1, false});
  ASSERT_THAT(timings, SizeIs(1));
  if (lacks_compiler(timings[0])) GTEST_SKIP() << timings[0].failed;
  EXPECT_THAT(timings[0].failed, IsEmpty());
  EXPECT_GT(timings[0].pass.median_us, 0);
  EXPECT_THAT(timings[0].hot_us, SizeIs(6));
}

TEST_F(GpuNetworks, SayWhichLibraryIsWrong) {
  GpuNetwork network(encoder_network("tiny-50")->load(), 4, side_);
  std::vector<std::unique_ptr<Peer>> idle;
  idle.push_back(std::make_unique<IdlePeer>(side_));
  const auto timings = network.measure(idle, {1, 1, false});
  ASSERT_THAT(timings, SizeIs(1));
  EXPECT_THAT(timings[0].failed,
              AllOf(HasSubstr("wrong: token 0 of the output is off by"), HasSubstr("nan")));
  EXPECT_EQ(timings[0].a_bytes, 42);
  EXPECT_EQ(timings[0].pass.samples, 0);
}

TEST_F(GpuNetworks, RefuseLayersThatDoNotFit) {
  auto layers = encoder_network("tiny-50")->load();
  std::swap(layers[3], layers[4]);
  EXPECT_THROW(GpuNetwork(std::move(layers), 4, side_), InvalidArgument);
  EXPECT_THROW(GpuNetwork({}, 4, side_), InvalidArgument);
}

TEST(EncoderNetworks, AreKnownByNameAndPercentage) {
  const auto layers = encoder_network("minilm-90")->load();
  ASSERT_THAT(layers, SizeIs(36));
  EXPECT_EQ(layers[4].matrix.rows, 1536);
  EXPECT_EQ(layers[4].matrix.nnz(), 58982);
  for (const char* name :
       {"minilm", "minilm-", "minilm-9x", "minilm-101", "minilm--1", "bart-90"}) {
    EXPECT_FALSE(encoder_network(name).has_value()) << name;
  }
}

}  // namespace

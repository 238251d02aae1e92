#include "runtime/cuda/cuda_stream.hpp"

#include <gmock/gmock.h>

#include <stdexcept>
#include <utility>

#include "cuda_testing.hpp"
#include "spjit/error.hpp"
#include "tests/support/cuda/cuda_graph.hpp"

namespace spjit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A device with a kernel, a buffer of two words and a stream.
class CudaStreamTest : public testing::Test {
 protected:
  void launch(void* stream) { add_one_.launch({.block = {2}}, stream, arguments_.values()); }

  CudaContext context_{test::emulated_driver(), 1};
  CudaFunction add_one_ = test::load_text(context_, test::test_ptx()).function("add_one");
  DeviceBuffer in_ = test::upload_words(context_, {1, 2});
  DeviceBuffer out_ = test::upload_words(context_, {0, 0});
  test::AddOneArguments arguments_{in_, out_, 2};
  CudaStream stream_{context_};
};

TEST_F(CudaStreamTest, EventsHaveTheTimeBetweenThem) {
  CudaEvent begin(context_);
  CudaEvent end(context_);

  begin.record(stream_.handle());
  launch(stream_.handle());
  end.record(stream_.handle());
  end.synchronize();

  EXPECT_GE(end.ms_since(begin), 0.0);
}

TEST_F(CudaStreamTest, EventThatWasNotRecordedHasNoTime) {
  CudaEvent begin(context_);
  const CudaEvent end(context_);
  begin.record(stream_.handle());

  EXPECT_THAT(test::message_of<DeviceError>([&] { static_cast<void>(end.ms_since(begin)); }),
              HasSubstr("cannot take the time between two events on device 1"));
}

TEST_F(CudaStreamTest, MovedOnesKeepWorking) {
  CudaStream stream(context_);
  CudaEvent event(context_);

  stream = std::move(stream_);
  event = CudaEvent(context_);
  event.record(stream.handle());

  EXPECT_NO_THROW(event.synchronize());
}

TEST_F(CudaStreamTest, OneWaitsForAnother) {
  const CudaStream later(context_);

  launch(stream_.handle());
  order_streams(context_, stream_.handle(), later.handle());
  later.synchronize();

  EXPECT_THAT(test::download_words(out_), ElementsAre(2, 3));
}

TEST_F(CudaStreamTest, OneCannotWaitForWhatIsOnlyCaptured) {
  const CudaStream later(context_);
  const auto capture = [&] {
    static_cast<void>(CudaGraph::capture(stream_, [&] {
      launch(stream_.handle());
      order_streams(context_, stream_.handle(), later.handle());
    }));
  };

  EXPECT_THAT(test::message_of<DeviceError>(capture), HasSubstr("cannot order two streams"));
}

using CudaGraphTest = CudaStreamTest;

TEST_F(CudaGraphTest, CapturedLaunchIsDoneAtEachLaunchWithWhatTheBuffersThenHold) {
  const CudaGraph graph = CudaGraph::capture(stream_, [&] { launch(stream_.handle()); });
  const std::vector<std::uint32_t> before = test::download_words(out_);

  graph.launch(stream_.handle());
  stream_.synchronize();
  const std::vector<std::uint32_t> first = test::download_words(out_);
  const std::vector<std::uint32_t> words = {10, 20};
  in_.upload(std::as_bytes(std::span(words)));
  graph.launch(stream_.handle());
  stream_.synchronize();

  EXPECT_THAT(before, ElementsAre(0, 0));
  EXPECT_THAT(first, ElementsAre(2, 3));
  EXPECT_THAT(test::download_words(out_), ElementsAre(11, 21));
}

TEST_F(CudaGraphTest, SeveralLaunchesAreRepeatedInTheirOrder) {
  test::AddOneArguments again(out_, out_, 2);
  CudaGraph graph = CudaGraph::capture(stream_, [&] {
    launch(stream_.handle());
    add_one_.launch({.block = {2}}, stream_.handle(), again.values());
  });

  const CudaGraph moved = std::move(graph);
  moved.launch(nullptr);
  context_.synchronize();

  EXPECT_THAT(test::download_words(out_), ElementsAre(3, 4));
}

TEST_F(CudaGraphTest, FunctionThatThrowsLeavesTheStreamAsBefore) {
  const auto capture = [&] {
    static_cast<void>(CudaGraph::capture(stream_, [&] {
      launch(stream_.handle());
      throw std::runtime_error("enough");
    }));
  };

  EXPECT_EQ(test::message_of<std::runtime_error>(capture), "enough");
  launch(stream_.handle());
  stream_.synchronize();

  EXPECT_THAT(test::download_words(out_), ElementsAre(2, 3));
}

TEST_F(CudaGraphTest, WhatCannotBeCapturedIsADeviceErrorAndLeavesTheStreamAsBefore) {
  const auto allocating = [&] {
    static_cast<void>(
        CudaGraph::capture(stream_, [&] { static_cast<void>(DeviceBuffer(context_, 8)); }));
  };
  const auto waiting = [&] {
    static_cast<void>(CudaGraph::capture(stream_, [&] { stream_.synchronize(); }));
  };
  const auto loading = [&] {
    static_cast<void>(CudaGraph::capture(
        stream_, [&] { static_cast<void>(test::load_text(context_, test::test_ptx())); }));
  };

  EXPECT_THAT(test::message_of<DeviceError>(allocating), HasSubstr("cannot allocate 8 bytes"));
  EXPECT_THAT(test::message_of<DeviceError>(waiting),
              HasSubstr("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)"));
  EXPECT_THAT(test::message_of<DeviceError>(loading), HasSubstr("cannot load a module"));
  EXPECT_NO_THROW(stream_.synchronize());
}

TEST_F(CudaGraphTest, HiddenFailureInvalidatesTheCapture) {
  const auto capture = [&] {
    static_cast<void>(
        CudaGraph::capture(stream_, [&] { EXPECT_THROW(DeviceBuffer(context_, 8), DeviceError); }));
  };

  EXPECT_THAT(test::message_of<DeviceError>(capture),
              HasSubstr("CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)"));
}

}  // namespace
}  // namespace spjit

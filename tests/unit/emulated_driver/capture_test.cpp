#include <gtest/gtest.h>

#include <thread>

#include "driver_testing.hpp"

namespace spjit::emulated {
namespace {

constexpr int k_global = 0;
constexpr int k_thread_local = 1;
constexpr int k_relaxed = 2;
constexpr int k_unsupported = static_cast<int>(Result::stream_capture_unsupported);
constexpr int k_invalidated = static_cast<int>(Result::stream_capture_invalidated);

// A blocking and a non-blocking stream.
class EmulatedCapture : public EmulatedDriver {
 protected:
  void SetUp() override {
    EmulatedDriver::SetUp();
    ASSERT_EQ(call("cuStreamCreate", &blocking_, 0U), 0);
    ASSERT_EQ(call("cuStreamCreate", &free_, 1U), 0);
  }

  void begin(void* stream, int mode) {
    ASSERT_EQ(call("cuStreamBeginCapture_v2", stream, mode), 0);
  }

  int end(void* stream) { return call("cuStreamEndCapture", stream, &graph_); }

  int allocate() const {
    DevicePointer unused = 0;
    return call("cuMemAlloc_v2", &unused, std::size_t{8});
  }

  void* blocking_ = nullptr;
  void* free_ = nullptr;
  void* graph_ = nullptr;
};

TEST_F(EmulatedCapture, LegacyStreamIsRefusedWhileABlockingStreamIsCaptured) {
  void* kernel = function(kernel_of(""));
  begin(free_, k_relaxed);
  const int beside_free = launch(kernel, 0, 1);
  begin(blocking_, k_relaxed);

  const int beside_blocking = launch(kernel, 0, 1);

  EXPECT_EQ(beside_free, 0);
  EXPECT_EQ(beside_blocking, static_cast<int>(Result::stream_capture_implicit));
  EXPECT_EQ(end(free_), 0);
  EXPECT_EQ(end(blocking_), k_invalidated);
}

TEST_F(EmulatedCapture, AllocationIsRefusedByTheModeAndTheThread) {
  begin(free_, k_relaxed);
  EXPECT_EQ(allocate(), 0);
  EXPECT_EQ(end(free_), 0);

  begin(free_, k_thread_local);
  int elsewhere = -1;
  std::thread([&] {
    void* context = nullptr;
    call("cuDevicePrimaryCtxRetain", &context, 0);
    call("cuCtxSetCurrent", context);
    elsewhere = allocate();
    call("cuDevicePrimaryCtxRelease_v2", 0);
  }).join();
  EXPECT_EQ(elsewhere, 0);
  EXPECT_EQ(allocate(), k_unsupported);
  EXPECT_EQ(end(free_), k_invalidated);

  begin(free_, k_global);
  EXPECT_EQ(allocate(), k_unsupported);
  EXPECT_EQ(end(free_), k_invalidated);
}

TEST_F(EmulatedCapture, WaitingInvalidatesTheCapture) {
  void* kernel = function(kernel_of(""));
  begin(free_, k_relaxed);

  EXPECT_EQ(call("cuStreamQuery", free_), k_unsupported);

  EXPECT_EQ(launch(kernel, 0, 1, free_), k_invalidated);
  EXPECT_EQ(call("cuCtxSynchronize"), k_unsupported);
  EXPECT_EQ(end(free_), k_invalidated);
  EXPECT_EQ(call("cuCtxSynchronize"), 0);
}

TEST_F(EmulatedCapture, BeginsAndEndsOnceOnTheSameThread) {
  int elsewhere = -1;
  begin(free_, k_thread_local);

  EXPECT_EQ(call("cuStreamBeginCapture_v2", free_, k_relaxed),
            static_cast<int>(Result::illegal_state));
  void* context = nullptr;
  ASSERT_EQ(call("cuCtxGetCurrent", &context), 0);
  std::thread([&] {
    call("cuCtxSetCurrent", context);
    elsewhere = end(free_);
  }).join();

  EXPECT_EQ(elsewhere, static_cast<int>(Result::stream_capture_wrong_thread));
  EXPECT_EQ(end(free_), 0);
  EXPECT_EQ(end(free_), static_cast<int>(Result::illegal_state));
}

TEST_F(EmulatedCapture, CapturedEventHasNoTime) {
  void* event = nullptr;
  float milliseconds = 0;
  ASSERT_EQ(call("cuEventCreate", &event, 0U), 0);
  begin(free_, k_relaxed);

  EXPECT_EQ(call("cuEventRecord", event, free_), 0);
  EXPECT_EQ(end(free_), 0);

  const int captured = static_cast<int>(Result::captured_event);
  EXPECT_EQ(call("cuEventSynchronize", event), captured);
  EXPECT_EQ(call("cuEventElapsedTime", &milliseconds, event, event), captured);
  EXPECT_EQ(call("cuEventRecord", event, free_), 0);
  EXPECT_EQ(call("cuEventElapsedTime", &milliseconds, event, event), 0);
}

TEST_F(EmulatedCapture, StateOfTheStreamIsTold) {
  int before = -1;
  int during = -1;
  int after_waiting = -1;

  EXPECT_EQ(call("cuStreamIsCapturing", free_, &before), 0);
  begin(free_, k_relaxed);
  EXPECT_EQ(call("cuStreamIsCapturing", free_, &during), 0);
  EXPECT_EQ(call("cuStreamSynchronize", free_), k_unsupported);
  EXPECT_EQ(call("cuStreamIsCapturing", free_, &after_waiting), 0);

  EXPECT_EQ(before, 0);
  EXPECT_EQ(during, 1);
  EXPECT_EQ(after_waiting, 2);
}

}  // namespace
}  // namespace spjit::emulated

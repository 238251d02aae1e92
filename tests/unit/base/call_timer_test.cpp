#include "base/call_timer.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

using spjit::CallTimer;

TEST(CallTimer, DisturbsBeforeEachCallAndDoesNotCountThat) {
  using std::chrono::milliseconds;
  std::string order;
  const std::vector<float> input(100, 1.0F);
  const CallTimer timer(
      [&] {
        order += 'd';
        std::this_thread::sleep_for(milliseconds(30));
      },
      {input.data(), 2, 40, 60});

  const double us = timer.us(3, [&] { order += 'c'; });

  EXPECT_EQ(order, "dcdcdc");
  EXPECT_LT(us, 30'000);
}

TEST(CallTimer, WithoutADisturbanceCallsFollowOneAnother) {
  int calls = 0;

  const double us = CallTimer().us(5, [&] { ++calls; });

  EXPECT_EQ(calls, 5);
  EXPECT_GE(us, 0);
}

TEST(CallTimer, EmptiesTheCachesOfAPool) {
  spjit::HostCpu cpu;
  cpu.l2_bytes = 4096;
  cpu.l3_bytes = 1 << 20;
  spjit::ThreadPool pool(3);
  for (spjit::ThreadPool* threads : {static_cast<spjit::ThreadPool*>(nullptr), &pool}) {
    int calls = 0;

    static_cast<void>(
        CallTimer(std::make_shared<spjit::CacheFlush>(cpu, threads), {}).us(2, [&] { ++calls; }));

    EXPECT_EQ(calls, 2);
  }
}

}  // namespace

#include "base/turns.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "spjit/error.hpp"

namespace {

using spjit::Cancellation;
using spjit::Turns;

Cancellation stopped_by(const std::stop_source& stop) {
  Cancellation cancel;
  cancel.stop = stop.get_token();
  return cancel;
}

TEST(ConcurrentTurns, GivesOutAsManyPlacesAsThereAre) {
  Turns turns(2);
  const Turns::Place first = turns.take({});
  Turns::Place second = turns.take({});

  EXPECT_NE(second, nullptr);
  EXPECT_EQ(turns.try_take(), nullptr);

  second = nullptr;
  EXPECT_NE(turns.try_take(), nullptr);
}

TEST(ConcurrentTurns, NoMoreThanThatGoOnAtOnce) {
  constexpr int k_places = 3;
  Turns turns(k_places);
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        for (int round = 0; round < 200; ++round) {
          const Turns::Place place = turns.take({});
          const int now = ++inside;
          int seen = most;
          while (now > seen && !most.compare_exchange_weak(seen, now)) {
          }
          --inside;
        }
      });
    }
  }

  EXPECT_LE(most, k_places);
  EXPECT_GE(most, 1);
}

TEST(ConcurrentTurns, FirstComeFirstServed) {
  Turns turns(1);
  Turns::Place held = turns.take({});
  std::mutex mutex;
  std::vector<int> order;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        const Turns::Place place = turns.take({});
        const std::lock_guard lock(mutex);
        order.push_back(i);
      });
      while (turns.waiting() != static_cast<std::size_t>(i) + 1) std::this_thread::yield();
    }
    held = nullptr;
  }

  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
}

TEST(ConcurrentTurns, AStopEndsTheWaitingAndTakesNoPlace) {
  Turns turns(1);
  Turns::Place held = turns.take({});
  std::stop_source stop;
  {
    std::jthread waiter(
        [&] { EXPECT_THROW(static_cast<void>(turns.take(stopped_by(stop))), spjit::Cancelled); });
    while (turns.waiting() == 0) std::this_thread::yield();
    stop.request_stop();
  }

  EXPECT_EQ(turns.waiting(), 0U);
  held = nullptr;
  EXPECT_NE(turns.try_take(), nullptr);
}

TEST(ConcurrentTurns, ADeadlineEndsTheWaitingToo) {
  Turns turns(1);
  const Turns::Place held = turns.take({});
  Cancellation cancel;
  cancel.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);

  EXPECT_THROW(static_cast<void>(turns.take(cancel)), spjit::DeadlineExceeded);

  EXPECT_EQ(turns.waiting(), 0U);
}

TEST(ConcurrentTurns, WhoGivesUpMidwayDoesNotHoldUpTheNext) {
  Turns turns(1);
  Turns::Place held = turns.take({});
  std::stop_source stop;
  std::atomic<bool> through = false;
  std::latch gave_up(1);
  {
    std::jthread first([&] {
      EXPECT_THROW(static_cast<void>(turns.take(stopped_by(stop))), spjit::Cancelled);
      gave_up.count_down();
    });
    while (turns.waiting() != 1) std::this_thread::yield();
    std::jthread second([&] {
      const Turns::Place place = turns.take({});
      through = true;
    });
    while (turns.waiting() != 2) std::this_thread::yield();
    stop.request_stop();
    gave_up.wait();
    held = nullptr;
  }

  EXPECT_TRUE(through);
}

}  // namespace

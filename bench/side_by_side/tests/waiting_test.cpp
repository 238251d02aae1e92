#include "bench/side_by_side/waiting.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace {

using namespace spjit::side_by_side;
using namespace std::chrono_literals;

TEST(WaitUntilOthersSleep, WaitsForAThreadThatSpins) {
  enum State { spins, sleeps, ends };
  std::atomic<State> state = spins;
  std::thread thread([&] {
    while (state == spins) {
    }
    state.wait(sleeps);
  });

  const bool while_it_spins = wait_until_others_sleep(5ms);
  state = sleeps;
  const bool then = wait_until_others_sleep(30s);
  state = ends;
  state.notify_all();
  thread.join();

  EXPECT_FALSE(while_it_spins);
  EXPECT_TRUE(then);
}

class CountedRests final : public Runnable {
 public:
  void run() override {}
  void rest() override { ++rests; }

  int rests = 0;
};

TEST(EndTurn, RestsTheLibrary) {
  CountedRests runnable;

  end_turn(runnable);

  EXPECT_EQ(runnable.rests, 1);
}

}  // namespace

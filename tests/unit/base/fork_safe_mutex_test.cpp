#include "base/fork_safe_mutex.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <latch>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/cancel.hpp"
#include "base/turns.hpp"
#include "tests/support/forked_child.hpp"

namespace spjit {
namespace {

using testing_support::ends_in_a_child;

TEST(ForkSafeMutex, IsFreeInAChildThatIsForkedWhileThreadsLockIt) {
  ForkSafeMutex mutex;
  ForkSafeMutex another;
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      while (!stop) {
        ForkSafeMutex of_thread;
        const std::lock_guard lock(i % 2 == 0 ? mutex : another);
        std::this_thread::yield();
      }
    });
  }

  bool all_end = true;
  for (int i = 0; i < 200 && all_end; ++i) {
    all_end = ends_in_a_child([&] {
      ForkSafeMutex made_there;
      for (ForkSafeMutex* each : {&made_there, &mutex, &another}) {
        const std::lock_guard lock(*each);
      }
      return true;
    });
  }

  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(all_end);
}

TEST(FoundOnce, IsFoundInAChildThatIsForkedWhileAThreadIsAtIt) {
  static constinit FoundOnce<int> once;
  std::latch is_at_it(1);
  std::latch may_end(1);
  std::jthread thread([&] {
    static_cast<void>(once.get([&] {
      is_at_it.count_down();
      may_end.wait();
      return 7;
    }));
  });
  is_at_it.wait();

  const bool ends = ends_in_a_child([&] { return once.get([] { return 8; }) == 8; });

  may_end.count_down();
  EXPECT_TRUE(ends);
}

TEST(FoundOnce, AllThreadsGetTheSame) {
  static constinit FoundOnce<int> once;
  std::atomic<int> next = 0;
  std::array<const int*, 4> found = {};
  {
    std::vector<std::jthread> threads;
    for (const int*& each : found) {
      threads.emplace_back([&] { each = &once.get([&] { return ++next; }); });
    }
  }

  for (const int* each : found) EXPECT_EQ(each, found.front());
  EXPECT_EQ(once.get([] { return -1; }), *found.front());
}

TEST(FoundOnce, IsTriedAgainAfterAnError) {
  static constinit FoundOnce<int> once;

  EXPECT_THROW(static_cast<void>(once.get([]() -> int { throw 1; })), int);
  EXPECT_EQ(once.get([] { return 2; }), 2);
}

TEST(PerProcess, AChildHasItsOwnAndTheParentKeepsIts) {
  const PerProcess<Turns> turns([] { return std::make_unique<Turns>(1); });
  const Turns::Place taken = turns.get().take({});
  const Turns* const here = &turns.get();

  const bool ends = ends_in_a_child([&] {
    const Turns::Place place = turns.get().take({});  // which a thread of the parent has
    return &turns.get() != here && turns.get().try_take() == nullptr;
  });

  EXPECT_TRUE(ends);
  EXPECT_EQ(&turns.get(), here);
  EXPECT_EQ(turns.get().try_take(), nullptr);
}

}  // namespace
}  // namespace spjit

#include "base/thread_pool.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "spjit/error.hpp"
#include "tests/support/allocation_counter.hpp"
#include "tests/support/files/system_testing.hpp"

namespace spjit {
namespace {

using namespace std::chrono_literals;

class ThreadPoolOf : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolOf, RunsEveryTaskOnce) {
  WorkerPool pool(GetParam());

  for (const int tasks : {1, 2, 3, 7, 64, 1000}) {
    std::vector<std::atomic<int>> runs(static_cast<std::size_t>(tasks));
    pool.run(tasks, [&](int task, int) { ++runs[static_cast<std::size_t>(task)]; });
    for (const auto& count : runs) EXPECT_EQ(count, 1);
  }
}

TEST_P(ThreadPoolOf, WorkerNumbersAreInRangeAndNotSharedByTasksInFlight) {
  WorkerPool pool(GetParam());
  std::vector<std::atomic<int>> in_flight(static_cast<std::size_t>(pool.threads()));
  std::atomic<int> wrong = 0;

  pool.run(200, [&](int, int worker) {
    if (worker < 0 || worker >= pool.threads()) {
      ++wrong;
      return;
    }
    auto& mine = in_flight[static_cast<std::size_t>(worker)];
    if (mine.fetch_add(1) != 0) ++wrong;
    std::this_thread::yield();
    mine.fetch_sub(1);
  });

  EXPECT_EQ(wrong, 0);
}

TEST_P(ThreadPoolOf, SeesWhatTasksWroteAfterManyShortRuns) {
  WorkerPool pool(GetParam());
  std::vector<std::int64_t> sums(8, 0);  // not atomic: run() orders them

  for (int i = 0; i < 5000; ++i) {
    pool.run(8, [&](int task, int) { sums[static_cast<std::size_t>(task)] += task; });
  }

  for (std::size_t task = 0; task < sums.size(); ++task) {
    EXPECT_EQ(sums[task], 5000 * static_cast<std::int64_t>(task));
  }
}

TEST_P(ThreadPoolOf, WakesParkedWorkers) {
  WorkerPool pool(GetParam(), 0ns);
  std::atomic<int> runs = 0;

  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(1ms);
    pool.run(4, [&](int, int) { ++runs; });
  }

  EXPECT_EQ(runs, 80);
}

TEST_P(ThreadPoolOf, CarriesTheExceptionAndStaysUsable) {
  WorkerPool pool(GetParam());
  std::atomic<int> started = 0;

  const auto fail_at_10 = [&](int task, int) {
    ++started;
    if (task == 10) throw std::runtime_error("task 10");
    // Or another thread might do all the others before this one has thrown.
    if (task > 10) std::this_thread::sleep_for(100us);
  };

  EXPECT_THROW(pool.run(100000, fail_at_10), std::runtime_error);
  EXPECT_GE(started, 11);
  EXPECT_LT(started, 100000);
  started = 0;
  pool.run(10, [&](int, int) { ++started; });
  EXPECT_EQ(started, 10);
}

TEST_P(ThreadPoolOf, SurvivesWhenEveryTaskThrows) {
  WorkerPool pool(GetParam());

  for (int i = 0; i < 200; ++i) {
    EXPECT_THROW(pool.run(8, [](int task, int) { throw task; }), int);
  }
}

TEST_P(ThreadPoolOf, RunsNestedRunsInline) {
  WorkerPool pool(GetParam());
  std::atomic<int> inner_runs = 0;

  pool.run(6, [&](int, int) {
    pool.run(5, [&](int, int worker) {
      EXPECT_EQ(worker, 0);
      ++inner_runs;
    });
  });

  EXPECT_EQ(inner_runs, 30);
}

TEST_P(ThreadPoolOf, TakesRunsFromSeveralThreadsAtOnce) {
  WorkerPool pool(GetParam());
  constexpr int k_callers = 4;
  constexpr int k_runs = 300;
  std::vector<int> complete(k_callers, 0);
  std::vector<std::thread> callers;

  for (std::size_t caller = 0; caller < k_callers; ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = 0; i < k_runs; ++i) {
        std::atomic<int> mine = 0;
        pool.run(7, [&](int, int) { ++mine; });
        if (mine == 7) ++complete[caller];
      }
    });
  }
  for (std::thread& caller : callers) caller.join();

  for (const int count : complete) EXPECT_EQ(count, k_runs);
}

/// Runs each of 200 tasks once, as workers whose numbers are in range and not shared by tasks in
/// flight.
void expect_whole_runs(ThreadPool& pool) {
  std::vector<std::atomic<int>> runs(200);
  std::vector<std::atomic<int>> in_flight(static_cast<std::size_t>(pool.threads()));
  std::atomic<int> wrong = 0;

  pool.run(200, [&](int task, int worker) {
    ++runs[static_cast<std::size_t>(task)];
    auto& mine = in_flight.at(static_cast<std::size_t>(worker));
    if (mine.fetch_add(1) != 0) ++wrong;
    std::this_thread::yield();
    mine.fetch_sub(1);
  });

  for (const auto& count : runs) EXPECT_EQ(count, 1);
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadPoolOfTheCaller, RunsInItsLoop) {
  int most_tasks = 0;
  const auto in_threads = [&](int tasks, void (*task)(void*, int), void* context) {
    most_tasks = tasks;
    std::vector<std::thread> threads;
    for (int i = 0; i < tasks; ++i) threads.emplace_back([=] { task(context, i); });
    for (std::thread& thread : threads) thread.join();
  };
  const auto pool = make_thread_pool(3, in_threads);

  expect_whole_runs(*pool);

  EXPECT_EQ(most_tasks, 3);
  EXPECT_EQ(pool->threads(), 3);
}

TEST(ThreadPoolOfTheCaller, TakesALoopInOneThreadAndOneThatLeavesOutTasks) {
  const auto one_by_one = [](int tasks, void (*task)(void*, int), void* context) {
    for (int i = tasks - 1; i >= 0; --i) task(context, i);
  };
  const auto nothing = [](int, void (*)(void*, int), void*) {};

  expect_whole_runs(*make_thread_pool(4, one_by_one));
  expect_whole_runs(*make_thread_pool(4, nothing));
}

TEST(ThreadPoolOfTheCaller, CarriesTheExceptionPastTheLoop) {
  int returned = 0;
  const auto pool = make_thread_pool(2, [&](int tasks, void (*task)(void*, int), void* context) {
    for (int i = 0; i < tasks; ++i) {
      task(context, i);
      ++returned;
    }
  });

  EXPECT_THROW(pool->run(8, [](int, int) { throw std::runtime_error("task"); }),
               std::runtime_error);
  EXPECT_EQ(returned, 2);
  expect_whole_runs(*pool);
}

TEST(ThreadPoolOfTheCaller, IsNotAskedForOneTaskAndNotNeededForOneThread) {
  const auto refuse = [](int, void (*)(void*, int), void*) { throw std::logic_error("asked"); };

  int runs = 0;
  make_thread_pool(4, refuse)->run(1, [&](int, int) { ++runs; });

  EXPECT_EQ(runs, 1);
  EXPECT_EQ(make_thread_pool(1, {}), nullptr);
  EXPECT_THROW(static_cast<void>(make_thread_pool(0, refuse)), InvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolOf, testing::Values(1, 2, 3, 8));

TEST(ThreadPool, SharesTheTasksAmongItsThreads) {
  WorkerPool pool(2);
  std::atomic<int> arrived = 0;

  // Neither task ends before the other one has begun, so one thread alone would never finish.
  pool.run(2, [&](int, int) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });

  EXPECT_EQ(arrived, 2);
}

TEST(ThreadPool, AllocatesNothingInSteadyState) {
  WorkerPool pool(2);
  std::atomic<int> runs = 0;
  const auto task = [&](int, int) { ++runs; };
  pool.run(4, task);

  const std::int64_t before = testing_support::allocations_so_far();
  for (int i = 0; i < 1000; ++i) pool.run(4, task);

  EXPECT_EQ(testing_support::allocations_so_far(), before);
  EXPECT_EQ(runs, 4004);
}

TEST(ThreadPool, DoesNothingForNoTasks) {
  WorkerPool pool(2);

  pool.run(0, [](int, int) { FAIL(); });
  pool.run(-3, [](int, int) { FAIL(); });
}

TEST(ThreadPool, StartsAndStopsWithoutWork) {
  for (int i = 0; i < 50; ++i) {
    const WorkerPool pool(3);
    EXPECT_EQ(pool.threads(), 3);
  }
}

TEST(ThreadPool, RefusesImpossibleSizes) {
  EXPECT_THROW(WorkerPool(0), InvalidArgument);
  EXPECT_THROW(WorkerPool(-2), InvalidArgument);
  EXPECT_THROW(WorkerPool(4097), InvalidArgument);
}

TEST(ThreadPool, AForkedChildRunsOnItsOneThreadAndEnds) {
  auto pool = std::make_unique<WorkerPool>(4);
  pool->run(4, [](int, int) {});

  const int code = test::in_child([&] {
    ::alarm(20);  // a hang is a failure, not a hang
    int runs = 0;
    pool->run(100, [&](int, int worker) { runs += worker == 0 ? 1 : 0; });
    pool.reset();
    return runs == 100 ? 0 : 1;
  });

  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace spjit

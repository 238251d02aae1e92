#include "base/call_timer.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "made_up_time.hpp"
#include "spjit/error.hpp"

namespace {

using spjit::CallTimer;
using spjit::measure_single_calls;
using spjit::TimingCandidate;
using spjit::testing_support::constant;
using spjit::testing_support::MadeUpTime;

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
  spjit::WorkerPool pool(3);
  for (spjit::ThreadPool* threads :
       {static_cast<spjit::ThreadPool*>(nullptr), static_cast<spjit::ThreadPool*>(&pool)}) {
    const auto caches = std::make_shared<spjit::CacheFlush>(cpu, threads);
    caches->flush();
    const std::int64_t once = caches->bytes_read();
    int calls = 0;

    static_cast<void>(CallTimer(caches, {}).us(2, [&] { ++calls; }));

    EXPECT_EQ(calls, 2);
    EXPECT_EQ(caches->bytes_read(), 3 * once);
  }
}

/// Made-up time, in which a disturbance takes some too.
class MeasureSingleCalls : public testing::Test {
 protected:
  [[nodiscard]] CallTimer timer() {
    return {[this] { disturbance_.run(); }, {}, time_.timing_options().clock};
  }

  MadeUpTime time_;
  TimingCandidate disturbance_ = time_.candidate("d", constant(1000));
};

TEST_F(MeasureSingleCalls, DisturbsBeforeEachCallAndTimesTheCallAlone) {
  TimingCandidate first = time_.candidate("a", constant(20));
  first.before_sample = time_.candidate("before", constant(300)).run;
  first.after_sample = time_.candidate("after", constant(300)).run;
  const std::vector<TimingCandidate> candidates = {first, time_.candidate("b", constant(5))};

  const auto results =
      measure_single_calls(candidates, timer(), {.min_samples = 2, .max_samples = 2});

  EXPECT_EQ(time_.log(), (std::vector<std::string>{"before", "d", "a", "after", "d", "b",  //
                                                   "d", "b", "before", "d", "a", "after"}));
  ASSERT_EQ(results.size(), 2);
  EXPECT_EQ(results[0].name, "a");
  EXPECT_DOUBLE_EQ(results[0].median_us, 20);
  EXPECT_DOUBLE_EQ(results[1].mean_us, 5);
  EXPECT_EQ(results[1].samples, 2);
}

TEST_F(MeasureSingleCalls, EachRoundBeginsWithAnotherCandidate) {
  const std::vector<TimingCandidate> candidates = {time_.candidate("a", constant(3)),
                                                   time_.candidate("b", constant(5)),
                                                   time_.candidate("c", constant(7))};

  const auto results =
      measure_single_calls(candidates, CallTimer({}, {}, time_.timing_options().clock),
                           {.min_samples = 4, .max_samples = 4});

  EXPECT_EQ(time_.log(), (std::vector<std::string>{"a", "b", "c", "b", "c", "a",  //
                                                   "c", "a", "b", "a", "b", "c"}));
  ASSERT_EQ(results.size(), 3);
  EXPECT_EQ(results[1].name, "b");
  EXPECT_DOUBLE_EQ(results[1].median_us, 5);
  EXPECT_DOUBLE_EQ(results[2].median_us, 7);
}

TEST_F(MeasureSingleCalls, BeginsNoRoundAfterTheBudgetButTakesTheLeastSamples) {
  const std::vector<TimingCandidate> candidates = {time_.candidate("a", constant(1000))};

  const auto in_budget = measure_single_calls(
      candidates, timer(), {.min_samples = 1, .max_samples = 50, .budget_ms = 9});
  const auto beyond = measure_single_calls(candidates, timer(),
                                           {.min_samples = 3, .max_samples = 50, .budget_ms = 0});
  const auto most = measure_single_calls(candidates, timer(),
                                         {.min_samples = 1, .max_samples = 4, .budget_ms = 1e9});

  EXPECT_EQ(in_budget[0].samples, 5);
  EXPECT_EQ(beyond[0].samples, 3);
  EXPECT_EQ(most[0].samples, 4);
}

TEST_F(MeasureSingleCalls, RefusesNumbersOfSamplesThatContradictEachOther) {
  const std::vector<TimingCandidate> candidates = {time_.candidate("a", constant(1))};
  for (const auto& [least, most] : {std::pair{0, 5}, std::pair{3, 2}}) {
    EXPECT_THROW(static_cast<void>(measure_single_calls(
                     candidates, timer(), {.min_samples = least, .max_samples = most})),
                 spjit::InvalidArgument);
  }
}

}  // namespace

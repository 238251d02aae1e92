#include "base/timing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "made_up_time.hpp"
#include "spjit/error.hpp"

namespace {

using spjit::measure_interleaved;
using spjit::TimingCandidate;
using spjit::TimingOptions;
using spjit::testing_support::constant;
using spjit::testing_support::MadeUpTime;
using testing::HasSubstr;

TEST(Timing, ReportsTheTimeOfOneCall) {
  MadeUpTime time;
  const std::vector<TimingCandidate> candidates = {time.candidate("slow", constant(300)),
                                                   time.candidate("fast", constant(5))};

  const auto results = measure_interleaved(candidates, time.timing_options());

  ASSERT_EQ(results.size(), 2);
  EXPECT_EQ(results[0].name, "slow");
  EXPECT_DOUBLE_EQ(results[0].median_us, 300);
  EXPECT_DOUBLE_EQ(results[1].median_us, 5);
  EXPECT_DOUBLE_EQ(results[1].min_us, 5);
  EXPECT_DOUBLE_EQ(results[1].mean_us, 5);
  EXPECT_EQ(results[1].noise, 0);
}

TEST(Timing, ShortCallsAreRepeatedUntilASampleIsLongEnough) {
  MadeUpTime time;
  TimingOptions options = time.timing_options();
  options.min_batch_us = 200;
  const std::vector<TimingCandidate> candidates = {time.candidate("short", constant(3)),
                                                   time.candidate("long", constant(1000))};

  const auto results = measure_interleaved(candidates, options);

  EXPECT_EQ(results[0].batch, 67);
  EXPECT_EQ(results[1].batch, 1);
}

TEST(Timing, TheFirstSlowCallsDoNotDecideTheBatch) {
  MadeUpTime time;
  TimingOptions options = time.timing_options();
  options.warm_up_ms = 2;
  const auto cold_then_warm = [](std::int64_t call) { return call < 3 ? 500.0 : 10.0; };
  const std::vector<TimingCandidate> candidates = {time.candidate("cold", cold_then_warm)};

  const auto results = measure_interleaved(candidates, options);

  EXPECT_EQ(results[0].batch, 20);
  EXPECT_DOUBLE_EQ(results[0].mean_us, 10);
}

TEST(Timing, CandidatesTakeTurnsAndTheOrderAlternates) {
  MadeUpTime time;
  TimingOptions options = time.timing_options();
  options.min_samples = 2;
  options.max_samples = 2;
  const std::vector<TimingCandidate> candidates = {time.candidate("a", constant(1000)),
                                                   time.candidate("b", constant(1000))};

  (void)measure_interleaved(candidates, options);

  // Two calls each to warm up, then two rounds of an untimed and a timed call.
  EXPECT_EQ(time.log(), (std::vector<std::string>{"a", "a", "b", "b",  //
                                                  "a", "a", "b", "b",  //
                                                  "b", "b", "a", "a"}));
}

TEST(Timing, WhatFollowsASampleIsNotTimed) {
  MadeUpTime time;
  TimingOptions options = time.timing_options();
  options.min_samples = 2;
  options.max_samples = 2;
  TimingCandidate slow_to_rest = time.candidate("a", constant(1000));
  slow_to_rest.after_sample = time.candidate("rest", constant(700)).run;
  const std::vector<TimingCandidate> candidates = {slow_to_rest};

  const auto results = measure_interleaved(candidates, options);

  EXPECT_DOUBLE_EQ(results[0].mean_us, 1000);
  EXPECT_EQ(time.log(), (std::vector<std::string>{"a", "a", "rest",  // warm-up
                                                  "a", "a", "rest", "a", "a", "rest"}));
}

TEST(Timing, WhatPrecedesASampleIsNotTimed) {
  MadeUpTime time;
  TimingOptions options = time.timing_options();
  options.min_samples = 2;
  options.max_samples = 2;
  TimingCandidate slow_to_begin = time.candidate("a", constant(1000));
  slow_to_begin.before_sample = time.candidate("begin", constant(700)).run;
  const std::vector<TimingCandidate> candidates = {slow_to_begin};

  const auto results = measure_interleaved(candidates, options);

  EXPECT_DOUBLE_EQ(results[0].mean_us, 1000);
  EXPECT_EQ(time.log(), (std::vector<std::string>{"begin", "a", "a",  // warm-up
                                                  "begin", "a", "a", "begin", "a", "a"}));
}

TEST(Timing, ADriftOfTheMachineHitsAllCandidatesAlike) {
  MadeUpTime time;
  TimingOptions options = time.timing_options();
  options.min_samples = options.max_samples = 40;
  const auto slowing = [&time](std::int64_t) { return 100 * (1 + time.now_us() / 1e5); };
  const std::vector<TimingCandidate> candidates = {time.candidate("a", slowing),
                                                   time.candidate("b", slowing)};

  const auto results = measure_interleaved(candidates, options);

  EXPECT_NEAR(results[0].median_us / results[1].median_us, 1, 0.01);
  EXPECT_GT(results[0].noise, 0.05);
}

TEST(Timing, StopsAtTheLeastSamplesWhenTheyAgree) {
  MadeUpTime time;
  TimingOptions options = time.timing_options();
  options.min_samples = 5;
  const std::vector<TimingCandidate> candidates = {time.candidate("steady", constant(50))};

  const auto results = measure_interleaved(candidates, options);

  EXPECT_EQ(results[0].samples, 5);
}

TEST(Timing, NoisyCandidatesGetMoreSamplesUntilTheGoal) {
  MadeUpTime time;
  TimingOptions options = time.timing_options();
  options.min_samples = 5;
  options.max_samples = 100'000;
  options.budget_ms = 1e9;
  options.relative_error_goal = 0.01;
  const auto noisy = [](std::int64_t call) {
    return 1000.0 + 50.0 * static_cast<double>(call % 7);
  };
  const std::vector<TimingCandidate> candidates = {time.candidate("noisy", noisy),
                                                   time.candidate("steady", constant(1000))};

  const auto results = measure_interleaved(candidates, options);

  EXPECT_GT(results[0].samples, 5);
  EXPECT_LT(results[0].samples, 1000);
  EXPECT_LE(results[0].relative_error, 0.01);
  EXPECT_EQ(results[1].samples, results[0].samples);
}

TEST(Timing, TheBudgetEndsItButNotBeforeTheLeastSamples) {
  const auto noisy = [](std::int64_t call) {
    return 9000.0 + 500.0 * static_cast<double>(call % 5);
  };
  for (const double budget_ms : {1.0, 400.0}) {
    MadeUpTime time;
    TimingOptions options = time.timing_options();
    options.min_samples = 3;
    options.relative_error_goal = 0;
    options.budget_ms = budget_ms;
    const std::vector<TimingCandidate> candidates = {time.candidate("noisy", noisy)};

    const auto results = measure_interleaved(candidates, options);

    EXPECT_GE(results[0].samples, 3);
    if (budget_ms < 2) {
      EXPECT_EQ(results[0].samples, 3);
    } else {
      EXPECT_GT(results[0].samples, 3);
      EXPECT_LE(time.now_us(), 420e3);
    }
  }
}

TEST(Timing, OutliersMoveNeitherMedianNorNoise) {
  const auto clean = spjit::summarize_samples("clean", {10, 11, 9, 10, 10.5, 9.5, 10});
  const auto disturbed = spjit::summarize_samples("disturbed", {10, 11, 9, 10, 10.5, 9.5, 900});

  EXPECT_DOUBLE_EQ(clean.median_us, 10);
  EXPECT_DOUBLE_EQ(disturbed.median_us, 10);
  EXPECT_LT(disturbed.noise, 0.1);
  EXPECT_GT(disturbed.mean_us, 100);
}

TEST(Timing, SummaryByHand) {
  const auto result = spjit::summarize_samples("four", {4, 1, 2, 3});

  EXPECT_DOUBLE_EQ(result.median_us, 2.5);
  EXPECT_DOUBLE_EQ(result.min_us, 1);
  EXPECT_DOUBLE_EQ(result.mean_us, 2.5);
  EXPECT_NEAR(result.noise, 1.4826 * 1.0 / 2.5, 1e-12);
  EXPECT_NEAR(result.relative_error, 1.2533 * 1.4826 / 2.5 / 2, 1e-12);
  EXPECT_EQ(result.samples, 4);
}

TEST(Timing, AClockThatStandsStillStillEnds) {
  MadeUpTime time;
  TimingOptions options = time.timing_options();
  options.min_samples = options.max_samples = 1;
  std::int64_t calls = 0;
  const std::vector<TimingCandidate> candidates = {{"free", [&calls] { ++calls; }}};

  const auto results = measure_interleaved(candidates, options);

  EXPECT_EQ(results[0].median_us, 0);
  EXPECT_GT(calls, 1);
}

TEST(Timing, NothingToTimeIsNothing) {
  EXPECT_TRUE(measure_interleaved({}, MadeUpTime().timing_options()).empty());
}

TEST(Timing, TheDefaultClockMovesForward) {
  const auto clock = spjit::steady_timing_clock();
  const auto first = clock();

  EXPECT_GE(clock(), first);
}

TEST(Timing, RefusesWhatMakesNoSense) {
  MadeUpTime time;
  const std::vector<TimingCandidate> candidates = {time.candidate("a", constant(1000))};
  const std::vector<TimingCandidate> no_function = {{"hollow", nullptr}};
  TimingOptions swapped = time.timing_options();
  swapped.min_samples = 9;
  swapped.max_samples = 8;
  TimingOptions no_clock = time.timing_options();
  no_clock.clock = nullptr;

  const auto message_of = [](const std::vector<TimingCandidate>& given,
                             const TimingOptions& options) -> std::string {
    try {
      (void)measure_interleaved(given, options);
    } catch (const spjit::InvalidArgument& error) {
      return error.what();
    }
    return "accepted";
  };

  EXPECT_THAT(message_of(no_function, time.timing_options()),
              HasSubstr("'hollow' has no function"));
  EXPECT_THAT(message_of(candidates, swapped), HasSubstr("9 to 8 samples"));
  EXPECT_THAT(message_of(candidates, no_clock), HasSubstr("no clock"));
}

TEST(Timing, WhatACandidateThrowsGoesThrough) {
  const std::vector<TimingCandidate> candidates = {
      {"broken", [] { throw std::runtime_error("no such kernel"); }}};

  EXPECT_THROW((void)measure_interleaved(candidates), std::runtime_error);
}

}  // namespace

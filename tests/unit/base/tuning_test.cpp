#include "base/tuning.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "made_up_time.hpp"
#include "spjit/error.hpp"

namespace {

using spjit::run_tuning;
using spjit::TuningEntry;
using spjit::TuningOptions;
using spjit::TuningOutcome;
using spjit::TuningProgress;
using spjit::TuningResult;
using spjit::testing_support::CallUs;
using spjit::testing_support::constant;
using spjit::testing_support::MadeUpTime;
using testing::HasSubstr;

TEST(Tuning, EntriesTakeTurnsAndTheOrderAlternates) {
  MadeUpTime time;
  const std::vector<TuningEntry> entries = {time.entry("a", constant(1000)),
                                            time.entry("b", constant(1000))};

  (void)run_tuning(entries, time.tuning_options(2));

  // Two calls each to warm up, then two rounds of an untimed and a timed call.
  EXPECT_EQ(time.log(), (std::vector<std::string>{"a", "a", "b", "b",  //
                                                  "a", "a", "b", "b",  //
                                                  "b", "b", "a", "a"}));
}

TEST(Tuning, ShortCallsAreRepeatedUntilASampleIsLongEnough) {
  MadeUpTime time;
  TuningOptions options = time.tuning_options(1);
  options.drops = false;
  const std::vector<TuningEntry> entries = {time.entry("short", constant(3)),
                                            time.entry("long", constant(1000))};

  const auto results = run_tuning(entries, options);

  EXPECT_EQ(results[0].timing.name, "short");
  EXPECT_EQ(results[0].timing.batch, 67);
  EXPECT_DOUBLE_EQ(results[0].timing.median_us, 3);
  EXPECT_EQ(results[1].timing.batch, 1);
  EXPECT_DOUBLE_EQ(results[1].timing.median_us, 1000);
}

TEST(Tuning, TheMarginNarrowsToTwoPercent) {
  EXPECT_DOUBLE_EQ(spjit::drop_margin(0), 1);
  EXPECT_DOUBLE_EQ(spjit::drop_margin(1), 0.5);
  EXPECT_DOUBLE_EQ(spjit::drop_margin(2), 0.145);
  for (int rounds = 1; rounds < 100; ++rounds) {
    EXPECT_LT(spjit::drop_margin(rounds), spjit::drop_margin(rounds - 1));
  }
  EXPECT_NEAR(spjit::drop_margin(1000), 0.02, 1e-6);
}

TEST(Tuning, EachIsDroppedAfterTheRoundWhoseMarginItIsOver) {
  struct Case {
    double slower;
    TuningOutcome outcome;
    int samples;
  };
  // Margins: 1 after warming up, 0.5, 0.145, 0.076 ... 0.0302, 0.0278 (rounds 7 and 8), 0.0235.
  const std::vector<Case> cases = {
      {1, TuningOutcome::finished, 12},   {2.1, TuningOutcome::dropped, 1},
      {1.9, TuningOutcome::dropped, 1},   {1.4, TuningOutcome::dropped, 2},
      {1.1, TuningOutcome::dropped, 3},   {1.03, TuningOutcome::dropped, 8},
      {1.01, TuningOutcome::finished, 12}};
  MadeUpTime time;
  std::vector<TuningEntry> entries;
  for (const Case& c : cases) entries.push_back(time.entry("", constant(1000 * c.slower)));

  const auto results = run_tuning(entries, time.tuning_options(12));

  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(results[i].outcome, cases[i].outcome) << cases[i].slower;
    EXPECT_EQ(results[i].timing.samples, cases[i].samples) << cases[i].slower;
    EXPECT_DOUBLE_EQ(results[i].timing.median_us, 1000 * cases[i].slower);
  }
}

TEST(Tuning, OneGoodSampleIsEnoughToStay) {
  MadeUpTime time;
  // Rounds have two calls each, so that the timed one is odd: every fourth is a good one.
  const auto disturbed = [](std::int64_t call) { return call % 8 == 3 ? 1000.0 : 1900.0; };
  const std::vector<TuningEntry> entries = {time.entry("steady", constant(1000)),
                                            time.entry("disturbed", disturbed)};

  const auto results = run_tuning(entries, time.tuning_options(12));

  EXPECT_EQ(results[1].outcome, TuningOutcome::finished);
  EXPECT_DOUBLE_EQ(results[1].timing.min_us, 1000);
  EXPECT_DOUBLE_EQ(results[1].timing.median_us, 1900);
}

TEST(Tuning, NobodyIsDroppedWhereNobodyShallBe) {
  MadeUpTime time;
  TuningOptions options = time.tuning_options(4);
  options.drops = false;
  const std::vector<TuningEntry> entries = {time.entry("fast", constant(300)),
                                            time.entry("slow", constant(30'000))};

  const auto results = run_tuning(entries, options);

  for (const TuningResult& result : results) {
    EXPECT_EQ(result.outcome, TuningOutcome::finished);
    EXPECT_EQ(result.timing.samples, 4);
  }
}

TEST(Tuning, ADriftOfTheMachineHitsAllAlikeAndLeavesTheWinner) {
  for (const double rate : {1e-5, -1e-6}) {
    MadeUpTime time;
    const auto drifting = [&time, rate](double us) {
      return [&time, rate, us](std::int64_t) { return us * (1 + rate * time.now_us()); };
    };
    const std::vector<TuningEntry> entries = {time.entry("a", drifting(1015)),
                                              time.entry("b", drifting(1000)),
                                              time.entry("twin of a", drifting(1015))};

    const auto results = run_tuning(entries, time.tuning_options(20));

    EXPECT_GT(results[1].timing.noise, 0.01) << rate;
    EXPECT_NEAR(results[0].timing.median_us / results[2].timing.median_us, 1, 0.003) << rate;
    EXPECT_EQ(spjit::winner_of(results), 1) << rate;
  }
}

TEST(Tuning, GoesOnUntilEveryMedianIsCertain) {
  MadeUpTime time;
  TuningOptions options = time.tuning_options(3);
  options.max_rounds = 10'000;
  options.relative_error_goal = 0.01;
  options.budget_ms = 1e9;
  options.drops = false;
  const auto noisy = [](std::int64_t call) {
    return 1000.0 + 50.0 * static_cast<double>(call % 7);
  };
  const std::vector<TuningEntry> entries = {time.entry("steady", constant(1000)),
                                            time.entry("noisy", noisy)};

  const auto results = run_tuning(entries, options);

  EXPECT_GT(results[1].timing.samples, 3);
  EXPECT_LT(results[1].timing.samples, 10'000);
  EXPECT_LE(results[1].timing.relative_error, 0.01);
  EXPECT_EQ(results[0].timing.samples, results[1].timing.samples);
}

TEST(Tuning, EndsAfterTheLeastRoundsWhereOneIsLeft) {
  MadeUpTime time;
  TuningOptions options = time.tuning_options(3);
  options.max_rounds = 40;
  options.relative_error_goal = 0;
  const auto noisy = [](std::int64_t call) {
    return 1000.0 + 50.0 * static_cast<double>(call % 7);
  };
  const std::vector<TuningEntry> entries = {time.entry("noisy", noisy),
                                            time.entry("slow", constant(9000))};

  const auto results = run_tuning(entries, options);

  EXPECT_EQ(results[0].timing.samples, 3);
  EXPECT_EQ(results[0].outcome, TuningOutcome::finished);
}

TEST(Tuning, WhoThrowsHasFailedWithTheReasonAndTheOthersGoOn) {
  MadeUpTime time;
  const auto throw_at = [](std::int64_t bad) {
    return [bad](std::int64_t call) {
      if (call >= bad) throw std::runtime_error("call " + std::to_string(bad) + " is bad");
      return 500.0;
    };
  };
  const std::vector<TuningEntry> entries = {time.entry("at once", throw_at(0)),
                                            time.entry("fine", constant(1000)),
                                            time.entry("later", throw_at(5))};
  TuningOptions options = time.tuning_options(6);
  options.drops = false;

  const auto results = run_tuning(entries, options);

  EXPECT_EQ(results[0].outcome, TuningOutcome::failed);
  EXPECT_EQ(results[0].failure, "call 0 is bad");
  EXPECT_EQ(results[0].timing.samples, 0);
  EXPECT_EQ(results[1].outcome, TuningOutcome::finished);
  EXPECT_EQ(results[1].timing.samples, 6);
  EXPECT_EQ(results[2].outcome, TuningOutcome::failed);
  EXPECT_EQ(results[2].failure, "call 5 is bad");
  EXPECT_EQ(spjit::winner_of(results), 1);
}

TEST(Tuning, TheBudgetLeavesSomeNotReached) {
  for (const auto& [budget_ms, sampled] : {std::pair{10.0, 0}, {29.5, 5}, {0.0, 0}}) {
    MadeUpTime time;
    TuningOptions options = time.tuning_options(3);
    options.budget_ms = budget_ms;
    std::vector<TuningEntry> entries;
    for (int i = 0; i < 10; ++i) {
      entries.push_back(time.entry(std::to_string(i), constant(1000 - i)));
    }

    const auto results = run_tuning(entries, options);

    // Warming up takes 2 ms each, a sample as long.
    for (int i = 0; i < 10; ++i) {
      const TuningResult& result = results[static_cast<std::size_t>(i)];
      EXPECT_EQ(result.timing.name, std::to_string(i));
      EXPECT_EQ(result.timing.samples, i < sampled ? 1 : 0);
      EXPECT_EQ(result.outcome, i < sampled ? TuningOutcome::finished : TuningOutcome::not_reached);
    }
    EXPECT_EQ(spjit::winner_of(results), sampled - 1);
    EXPECT_LE(time.now_us(), budget_ms * 1e3 + 2000);
  }
}

TEST(Tuning, ResultsAreTimesOfWholeRuns) {
  MadeUpTime time;
  const std::vector<TuningEntry> entries = {time.entry("whole", constant(1200)),
                                            time.entry("quarter", constant(280), 0.25)};

  const auto results = run_tuning(entries, time.tuning_options(4));

  EXPECT_DOUBLE_EQ(results[0].timing.median_us, 1200);
  EXPECT_DOUBLE_EQ(results[1].timing.median_us, 1120);
  EXPECT_EQ(spjit::winner_of(results), 1);
}

TEST(Tuning, TellsHowItStandsAfterEachSample) {
  MadeUpTime time;
  TuningOptions options = time.tuning_options(3);
  std::vector<std::size_t> settled;
  std::vector<std::string> best;
  double most_left_ms = 0;
  options.progress = [&](const TuningProgress& progress) {
    EXPECT_EQ(progress.entries, 3U);
    EXPECT_GE(progress.ms_left, 0);
    most_left_ms = std::max(most_left_ms, progress.ms_left);
    settled.push_back(progress.settled);
    best.emplace_back(progress.best);
    EXPECT_DOUBLE_EQ(progress.best_us, progress.best == "a" ? 1040 : 1000);
  };
  const std::vector<TuningEntry> entries = {time.entry("a", constant(1040)),
                                            time.entry("b", constant(1000)),
                                            time.entry("hopeless", constant(9000))};

  (void)run_tuning(entries, options);

  EXPECT_EQ(settled, (std::vector<std::size_t>(6, 1)));
  EXPECT_EQ(best, (std::vector<std::string>{"a", "b", "b", "b", "b", "b"}));
  EXPECT_GT(most_left_ms, 0);
  EXPECT_LE(most_left_ms, 3 * 2 * 2.04);
}

TEST(Tuning, WhatProgressThrowsEndsTheTuning) {
  MadeUpTime time;
  TuningOptions options = time.tuning_options(10);
  int reports = 0;
  options.progress = [&](const TuningProgress&) {
    if (++reports == 3) throw std::runtime_error("enough");
  };
  const std::vector<TuningEntry> entries = {time.entry("a", constant(1000)),
                                            time.entry("b", constant(1000))};

  EXPECT_THROW((void)run_tuning(entries, options), std::runtime_error);

  EXPECT_EQ(reports, 3);
}

TEST(Tuning, WhatCheckThrowsEndsTheTuningBeforeTheNextCall) {
  MadeUpTime time;
  TuningOptions options = time.tuning_options(10);
  int calls = 0;
  options.check = [&] {
    if (calls == 5) throw std::runtime_error("enough");
  };
  const CallUs count = [&](std::int64_t) {
    ++calls;
    return 1000.0;
  };
  const std::vector<TuningEntry> entries = {time.entry("a", count), time.entry("b", count)};

  EXPECT_THROW((void)run_tuning(entries, options), std::runtime_error);

  EXPECT_EQ(calls, 5);
}

TEST(Tuning, AClockThatStandsStillStillEnds) {
  TuningOptions options;
  options.min_rounds = options.max_rounds = 2;
  options.clock = [] { return std::chrono::nanoseconds(0); };
  const std::vector<TuningEntry> entries = {{"free", [](std::int64_t) { return 0.0; }}};

  const auto results = run_tuning(entries, options);

  EXPECT_EQ(results[0].timing.samples, 2);
  EXPECT_EQ(results[0].timing.median_us, 0);
}

TEST(Tuning, NothingToTimeIsNothing) { EXPECT_TRUE(run_tuning({}).empty()); }

TuningResult result_of(double us, TuningOutcome outcome) {
  TuningResult result;
  result.outcome = outcome;
  result.timing = spjit::summarize_samples("", {us});
  return result;
}

TEST(TuningWinner, IsTheFastestThatFinishedElseTheFastestWithASampleIfNothingWasCutOff) {
  const TuningResult slow = result_of(9, TuningOutcome::finished);
  const TuningResult fast = result_of(5, TuningOutcome::finished);
  const TuningResult dropped = result_of(4, TuningOutcome::dropped);
  const TuningResult failed = result_of(1, TuningOutcome::failed);
  const TuningResult not_reached;

  const auto winner = [](const std::vector<TuningResult>& results) {
    return spjit::winner_of(results);
  };
  EXPECT_EQ(winner({slow, not_reached, dropped, failed, fast}), 4);
  EXPECT_EQ(winner({failed, dropped}), 1);
  // Who was dropped was slower than one that the budget left no sample.
  EXPECT_EQ(winner({failed, not_reached, dropped}), spjit::k_no_winner);
  EXPECT_EQ(winner({fast, fast}), 0);
  EXPECT_EQ(winner({failed, not_reached}), spjit::k_no_winner);
  EXPECT_EQ(winner({}), spjit::k_no_winner);
}

TEST(Tuning, ColdCallsAreASampleEach) {
  EXPECT_EQ(spjit::paced({}, false).min_sample_us, 0);
  EXPECT_EQ(spjit::paced({}, true).min_sample_us, TuningOptions{}.min_sample_us);
}

TEST(TuningOutcomes, HaveNames) {
  EXPECT_EQ(to_string(TuningOutcome::finished), "finished");
  EXPECT_EQ(to_string(TuningOutcome::dropped), "dropped");
  EXPECT_EQ(to_string(TuningOutcome::failed), "failed");
  EXPECT_EQ(to_string(TuningOutcome::not_reached), "not_reached");
}

TEST(Tuning, RefusesWhatMakesNoSense) {
  MadeUpTime time;
  const auto message_of = [](const TuningEntry& entry,
                             const TuningOptions& options) -> std::string {
    try {
      (void)run_tuning(std::vector<TuningEntry>{entry}, options);
    } catch (const spjit::InvalidArgument& error) {
      return error.what();
    }
    return "accepted";
  };
  const TuningEntry fine = time.entry("fine", constant(1000));
  TuningEntry no_part = fine;
  no_part.part = 0;
  TuningEntry part_of_nothing = fine;
  part_of_nothing.part = std::numeric_limits<double>::quiet_NaN();
  TuningOptions swapped = time.tuning_options(3);
  swapped.max_rounds = 2;
  TuningOptions no_clock = time.tuning_options(3);
  no_clock.clock = nullptr;

  EXPECT_THAT(message_of({"hollow", nullptr}, time.tuning_options(3)),
              HasSubstr("'hollow' has no function"));
  EXPECT_THAT(message_of(no_part, time.tuning_options(3)), HasSubstr("a call is 0 of a run"));
  EXPECT_THAT(message_of(part_of_nothing, time.tuning_options(3)), HasSubstr("of a run"));
  EXPECT_THAT(message_of(fine, time.tuning_options(0)), HasSubstr("0 to 0 rounds"));
  EXPECT_THAT(message_of(fine, swapped), HasSubstr("3 to 2 rounds"));
  EXPECT_THAT(message_of(fine, no_clock), HasSubstr("no clock"));
}

}  // namespace

// Calls of a tuning that are not timed: the first one, and those that settle caches.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/tuning.hpp"
#include "made_up_time.hpp"

namespace {

using spjit::run_tuning;
using spjit::TuningEntry;
using spjit::TuningOptions;
using spjit::TuningOutcome;
using spjit::TuningResult;
using spjit::testing_support::constant;
using spjit::testing_support::MadeUpTime;
using testing::HasSubstr;

TEST(Tuning, CallsThatSettleCachesAreNotTimedAndDropNobody) {
  MadeUpTime time;
  // As long code does: slow for some calls, then fast.
  TuningEntry large =
      time.entry("large", [](std::int64_t call) { return call < 6 ? 9000.0 : 900.0; });
  large.settling_calls = 8;
  const std::vector<TuningEntry> entries = {time.entry("small", constant(1000)), large};

  const auto results = run_tuning(entries, time.tuning_options(3));

  EXPECT_EQ(results[1].outcome, TuningOutcome::finished);
  EXPECT_DOUBLE_EQ(results[1].timing.median_us, 900);
}

TEST(Tuning, ASampleOfLongCodeThatIsFarOverItsBestIsTakenAgainWithSettledCaches) {
  MadeUpTime time;
  // Calls: the first, eight to settle, one for the batch; untimed and timed ones of round 1; then
  // the other runner has thrown it out of the caches.
  TuningEntry large = time.entry(
      "large", [](std::int64_t call) { return call >= 12 && call < 18 ? 9000.0 : 900.0; });
  large.settling_calls = 8;
  const std::vector<TuningEntry> entries = {time.entry("small", constant(1000)), large};

  const auto results = run_tuning(entries, time.tuning_options(3));

  EXPECT_EQ(results[1].timing.samples, 3);
  EXPECT_DOUBLE_EQ(results[1].timing.median_us, 900);
  EXPECT_DOUBLE_EQ(results[1].timing.noise, 0);
}

TEST(Tuning, AFirstCallThatIsLongAndFarOverTheBestIsTheLast) {
  MadeUpTime time;
  const std::vector<TuningEntry> entries = {
      time.entry("fast", constant(1000)), time.entry("slow", constant(2600)),
      time.entry("cold", [](std::int64_t call) { return call == 0 ? 2400.0 : 1000.0; })};

  const auto results = run_tuning(entries, time.tuning_options(3));

  EXPECT_EQ(results[1].outcome, TuningOutcome::dropped);
  EXPECT_EQ(std::ranges::count(time.log(), "slow"), 1);
  EXPECT_EQ(results[2].outcome, TuningOutcome::finished);
}

TEST(Tuning, AHiccupWhileWarmingUpDropsNobody) {
  // Something else ran during one call: the first, or one in the batch that sizes the samples.
  for (const std::int64_t hit : {0, 1, 5, 20}) {
    MadeUpTime time;
    const auto hiccup = [hit](std::int64_t call) { return call == hit ? 22'000.0 : 10.0; };
    const std::vector<TuningEntry> entries = {time.entry("steady", constant(12)),
                                              time.entry("hit", hiccup)};

    const auto results = run_tuning(entries, time.tuning_options(4));

    EXPECT_EQ(results[1].outcome, TuningOutcome::finished) << "call " << hit;
    EXPECT_DOUBLE_EQ(results[1].timing.median_us, 10) << "call " << hit;
    EXPECT_EQ(spjit::winner_of(results), 1) << "call " << hit;
  }
}

TEST(Tuning, ALongFirstCallThatNoNeighbourCanHaveCausedIsTheOnlyOne) {
  MadeUpTime time;
  std::int64_t calls = 0;
  const auto slow = [&calls](std::int64_t) {
    ++calls;
    return 9000.0;
  };
  const std::vector<TuningEntry> entries = {time.entry("best", constant(3000)),
                                            time.entry("slow", slow)};

  const auto results = run_tuning(entries, time.tuning_options(3));

  EXPECT_EQ(results[1].outcome, TuningOutcome::dropped);
  EXPECT_EQ(calls, 1);
}

TEST(Tuning, AFirstCallOverTheLimitHasFailedAndIsTheLast) {
  MadeUpTime time;
  TuningOptions options = time.tuning_options(3);
  options.drops = false;
  options.call_limit_ms = 50;
  const std::vector<TuningEntry> entries = {time.entry("endless", constant(60e3)),
                                            time.entry("long", constant(49e3))};

  const auto results = run_tuning(entries, options);

  EXPECT_EQ(results[0].outcome, TuningOutcome::failed);
  EXPECT_EQ(results[0].failure, "one call took 60 ms, the limit is 50 ms");
  EXPECT_EQ(std::ranges::count(time.log(), "endless"), 1);
  EXPECT_EQ(results[1].outcome, TuningOutcome::finished);
}

}  // namespace

#include "bench/lab/sequence.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace {

using namespace spjit::bench;
using std::chrono::microseconds;
using std::chrono::nanoseconds;
using testing::Each;
using testing::ElementsAre;

/// Time that passes only in layers.
struct MadeUpTime {
  nanoseconds now{0};
  std::string order = {};

  [[nodiscard]] std::function<void()> layer(char name, int us) {
    return [this, name, us] {
      now += microseconds(us);
      order += name;
    };
  }
  [[nodiscard]] SequenceOptions options(int samples) {
    SequenceOptions options;
    options.clock = [this] { return now; };
    options.min_samples = samples;
    options.budget_ms = 0;
    return options;
  }
};

TEST(TimeInSequence, KeepsEachLayerOfPassesThatCount) {
  MadeUpTime time;
  const std::vector<Sequence> sequences = {{"one", {time.layer('a', 2), time.layer('b', 5)}},
                                           {"other", {time.layer('c', 3), time.layer('d', 1)}}};

  const auto timings = time_in_sequence(sequences, time.options(2));

  ASSERT_EQ(timings.size(), 2U);
  EXPECT_EQ(timings[1].pass.name, "other");
  EXPECT_DOUBLE_EQ(timings[0].pass.median_us, 7);
  EXPECT_DOUBLE_EQ(timings[1].pass.median_us, 4);
  EXPECT_EQ(timings[0].pass.samples, 2);
  EXPECT_THAT(timings[0].layers_us, ElementsAre(ElementsAre(2, 2), ElementsAre(5, 5)));
  EXPECT_EQ(time.order, "ababcdcdcdcdabab") << "each pass twice, rounds begin with another";
}

TEST(TimeInSequence, EndsTurns) {
  MadeUpTime time;
  int turns = 0;
  const std::vector<Sequence> sequences = {{"one", {time.layer('a', 2)}, [&] { ++turns; }}};

  static_cast<void>(time_in_sequence(sequences, time.options(5)));

  EXPECT_EQ(turns, 5);
}

TEST(TimeAlone, TimesEachLayerByItself) {
  MadeUpTime time;
  const std::vector<Sequence> sequences = {{"one", {time.layer('a', 2), time.layer('b', 5)}},
                                           {"other", {time.layer('c', 3), time.layer('d', 1)}}};

  const auto timings = time_alone(sequences, time.options(2));

  ASSERT_EQ(timings.size(), 2U);
  ASSERT_THAT(timings, Each(testing::SizeIs(2)));
  EXPECT_NEAR(timings[0][1].median_us, 5, 1e-9);
  EXPECT_NEAR(timings[1][0].median_us, 3, 1e-9);
}

TEST(TimeAlone, OfNothingIsNothing) { EXPECT_TRUE(time_alone({}, {}).empty()); }

}  // namespace

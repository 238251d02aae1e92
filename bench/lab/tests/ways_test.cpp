#include "bench/lab/ways.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "spjit/error.hpp"

namespace {

using namespace spjit;
using namespace spjit::bench;
using std::chrono::microseconds;
using std::chrono::nanoseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Time passes only in layers.
struct PassingTime {
  nanoseconds now{0};

  [[nodiscard]] SequenceOptions options() {
    SequenceOptions options;
    options.clock = [this] { return now; };
    options.min_samples = 2;
    options.budget_ms = 0;
    return options;
  }
};

class MadeUpLayer final : public side_by_side::Runnable {
 public:
  MadeUpLayer(PassingTime& time, int us) : time_(time), us_(us) {}
  void run() override { time_.now += microseconds(us_); }
  [[nodiscard]] std::string detail() const override { return us_ < 5 ? "short" : "long"; }

 private:
  PassingTime& time_;
  int us_;
};

/// Layers that take so long; 0: cannot be prepared.
WayMaker maker_of(PassingTime& time, std::string name, std::vector<int> layers_us) {
  WayMaker maker;
  maker.name = std::move(name);
  maker.prepare = [&time, layers_us](std::size_t layer) {
    if (layers_us[layer] == 0) throw NotSupported("no such layer");
    return std::make_unique<MadeUpLayer>(time, layers_us[layer]);
  };
  maker.spoil = [] {};
  maker.check = [](std::size_t /*layer*/) { return std::string(); };
  return maker;
}

std::vector<Case> timed(PassingTime& time, const std::vector<WayMaker>& makers,
                        const std::vector<LayerGroup>& groups, bool hot) {
  std::vector<ReadyWay> ways;
  for (const WayMaker& maker : makers) ways.push_back(prepare_way(maker, 3, 1));
  std::vector<Case> cases(groups.size());
  for (Case& one : cases) one.hot = hot;
  time_ways(ways, groups, time.options(), cases);
  return cases;
}

const std::vector<LayerGroup> k_groups = {{{0, 2}}, {{1}}};

TEST(GroupBy, KeepsTheOrderInWhichKeysCome) {
  const auto groups = group_by(std::string("abacb"), [](char key) { return key; });
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_THAT(groups[0].layers, ElementsAre(0, 2));
  EXPECT_THAT(groups[1].layers, ElementsAre(1, 4));
}

TEST(TimeWays, AddsUpTheLayersOfAGroup) {
  PassingTime time;

  const auto cases =
      timed(time, {maker_of(time, "one", {2, 8, 3}), maker_of(time, "other", {4, 4, 6})}, k_groups,
            false);

  ASSERT_EQ(cases[0].timings.size(), 2U);
  EXPECT_DOUBLE_EQ(cases[0].find("one")->time.median_us, 5);
  EXPECT_DOUBLE_EQ(cases[1].find("one")->time.median_us, 8);
  EXPECT_FALSE(cases[0].find("one")->paired);
  EXPECT_DOUBLE_EQ(cases[0].find("other")->paired.value_or(PairedRatio{}).median, 2);
  EXPECT_THAT(cases[0].find("one")->chosen, ElementsAre("short"));
  EXPECT_THAT(cases[0].find("other")->chosen, ElementsAre("short", "long"));
  EXPECT_THAT(cases[0].find("one")->layers_us, IsEmpty());
}

TEST(TimeWays, TimesTheFirstOfAShapeForAllWhereItIsHot) {
  PassingTime time;

  const auto cases = timed(time, {maker_of(time, "one", {2, 8, 3})}, k_groups, true);

  EXPECT_NEAR(cases[0].find("one")->time.median_us, 4, 1e-9) << "twice the first";
  EXPECT_NEAR(cases[1].find("one")->time.median_us, 8, 1e-9);
}

TEST(TimeWays, KeepsEachLayerOfAWholeNetwork) {
  PassingTime time;
  const std::vector<LayerGroup> all = {{{0, 1, 2}, true}};

  const auto cold = timed(time, {maker_of(time, "one", {2, 8, 2})}, all, false);
  const auto hot = timed(time, {maker_of(time, "one", {2, 8, 2})}, all, true);

  EXPECT_THAT(cold[0].find("one")->layers_us, ElementsAre(2, 8, 2));
  EXPECT_THAT(cold[0].find("one")->chosen, ElementsAre("short", "long", "short"));
  EXPECT_NEAR(hot[0].find("one")->time.median_us, 12, 1e-9) << "each alone";
}

TEST(TimeWays, LeavesOutWhatIsWrong) {
  PassingTime time;
  WayMaker wrong = maker_of(time, "wrong", {1, 1, 1});
  wrong.check = [](std::size_t layer) { return layer == 1 ? "wrong: layer 1" : std::string(); };

  const auto cases = timed(time, {wrong, maker_of(time, "right", {2, 2, 2})}, k_groups, false);

  EXPECT_EQ(cases[0].find("wrong"), nullptr);
  EXPECT_EQ(cases[0].timings[0].failed, "wrong: layer 1");
  EXPECT_EQ(cases[0].timings[0].time.samples, 0);
  EXPECT_DOUBLE_EQ(cases[0].find("right")->time.median_us, 4);
  EXPECT_FALSE(cases[0].find("right")->paired) << "the first has no time";
}

TEST(TimeWays, ReplacesALayerThatAWayCannotComputeIfThereIsAnother) {
  PassingTime time;
  WayMaker some = maker_of(time, "some", {2, 0, 3});
  const WayMaker none = maker_of(time, "none", {2, 0, 3});
  some.instead = [&time](std::size_t /*layer*/) { return std::make_unique<MadeUpLayer>(time, 9); };

  const auto cases = timed(time, {some, none}, k_groups, false);

  EXPECT_DOUBLE_EQ(cases[0].find("some")->time.median_us, 5);
  EXPECT_EQ(cases[1].find("some"), nullptr);
  EXPECT_THAT(cases[1].timings[0].failed, HasSubstr("no such layer"));
  EXPECT_EQ(cases[0].find("none"), nullptr);
  EXPECT_THAT(cases[0].timings[1].failed, HasSubstr("no such layer"));
}

TEST(TimeWays, TakesNoWaysAtAll) {
  PassingTime time;
  EXPECT_THAT(timed(time, {}, k_groups, false)[0].timings, IsEmpty());
}

}  // namespace

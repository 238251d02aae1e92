#include "proxy/search.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "spjit/error.hpp"
#include "tests/unit/proxy/made_up_space.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

constexpr auto k_stand_in = Fidelity::stand_in;
constexpr auto k_full = Fidelity::full;

std::string outcome_of(const std::optional<TuningResult>& result) {
  if (!result) return "-";
  return std::string(to_string(result->outcome)) +
         (result->failure.empty() ? "" : ": " + result->failure);
}

/// Ten candidates; in every stage the first is the fastest.
class Search : public testing::Test {
 protected:
  Search() { space_.given.stand_ins_decide = true; }

  SearchOutcome search() { return spjit::search(space_, settings_, context_); }

  MadeUpSpace space_{10};
  SearchSettings settings_;
  CompileContext context_;
};

TEST_F(Search, TimesStandInsOfAllThenTheBestFewInFull) {
  settings_.stages.finalists = 3;

  const SearchOutcome found = search();

  ASSERT_THAT(space_.batches, SizeIs(2));
  EXPECT_THAT(space_.batches[0], SizeIs(10));
  EXPECT_THAT(space_.batches[1], ElementsAre(0, 1, 2));
  EXPECT_TRUE(found.trace.timed);
  EXPECT_TRUE(found.trace.proxies);
  EXPECT_TRUE(space_.right_builds);
}

TEST_F(Search, TheBestStandInMayLoseInFull) {
  space_.result_of = [](const TuningJob& job) {
    const auto number = static_cast<double>(job.candidate);
    return made_up_time(job.fidelity == k_stand_in ? 1 + number : 100 - number);
  };

  const SearchOutcome found = search();

  EXPECT_EQ(found.trace.chosen, 2U);
  EXPECT_EQ(found.trace.entries[2].full->timing.median_us, 98);
  EXPECT_EQ(static_cast<const MadeUpBuild&>(*found.build).serves, (std::vector<std::size_t>{2}));
  EXPECT_EQ(static_cast<const MadeUpBuild&>(*found.build).fidelity, k_full);
}

TEST_F(Search, ABuildThatFailsIsRecordedWithItsReasonAndTheOthersGoOn) {
  space_.failing_stand_ins = {{0, "too long"}, {4, "too wide"}};
  space_.failing_in_full = {{1, "no registers left"}};

  const SearchOutcome found = search();

  EXPECT_EQ(outcome_of(found.trace.entries[0].proxy), "failed: too long");
  EXPECT_EQ(outcome_of(found.trace.entries[4].proxy), "failed: too wide");
  EXPECT_EQ(outcome_of(found.trace.entries[1].full), "failed: no registers left");
  EXPECT_THAT(space_.batches[1], ElementsAre(2, 3));
  EXPECT_EQ(found.trace.chosen, 2U);
}

TEST_F(Search, WhereNoFinalistIsTimedTheBestStandInThatDidNotFailInFullIsChosen) {
  space_.failing_in_full = {{0, "no registers left"}};
  space_.result_of = [](const TuningJob& job) {
    return job.fidelity == k_full ? TuningResult{}
                                  : made_up_time(static_cast<double>(job.candidate) + 1);
  };

  const SearchOutcome found = search();

  EXPECT_EQ(found.trace.chosen, 1U);
  EXPECT_TRUE(found.trace.timed);
  EXPECT_EQ(found.build, nullptr);
}

TEST_F(Search, WhereAllFinalistsFailTheBestStandInIsChosen) {
  space_.failing_in_full = {{0, "no"}, {1, "no"}, {2, "no"}};

  const SearchOutcome found = search();

  EXPECT_EQ(found.trace.chosen, 0U);
  EXPECT_TRUE(found.trace.timed);
  EXPECT_EQ(found.build, nullptr);
}

TEST_F(Search, WhereStandInsDoNotDecideTheFavouriteIsTakenUntimed) {
  space_.given.stand_ins_decide = false;
  space_.given.favourite = 0;
  space_.result_of = [](const TuningJob& job) {
    return job.fidelity == k_full ? made_up_failure("no luck")
                                  : made_up_time(10 - static_cast<double>(job.candidate));
  };

  const SearchOutcome found = search();

  EXPECT_THAT(space_.batches[1], ElementsAre(9, 8, 7, 0));
  EXPECT_EQ(found.trace.chosen, 0U);
  EXPECT_FALSE(found.trace.timed);
}

TEST_F(Search, WithoutFinalistsTheStandInsDecide) {
  settings_.stages.finalists = 0;
  space_.given.favourite = 5;

  const SearchOutcome found = search();

  EXPECT_THAT(space_.batches, SizeIs(1));
  EXPECT_EQ(found.trace.chosen, 0U);
  EXPECT_TRUE(found.trace.timed);
  EXPECT_EQ(found.build, nullptr);
  EXPECT_GT(space_.budgets_ms[0], 0.7 * settings_.budget_ms);
}

TEST_F(Search, StandInsLeaveTheFinalistsTheirShareOfTheBudget) {
  (void)search();

  EXPECT_LE(space_.budgets_ms.at(0), 0.7 * settings_.budget_ms);
  EXPECT_GT(space_.budgets_ms.at(1), 0.7 * settings_.budget_ms);
}

TEST_F(Search, AFamilyMayKeepPartOfAStagesTimeFromBuilding) {
  using std::chrono::milliseconds;
  space_.given.build_share = 0.5;
  std::vector<std::chrono::steady_clock::time_point> ends;
  space_.during_build = [&](std::size_t, const Cancellation& cancel) {
    ends.push_back(cancel.deadline.value());
  };

  (void)search();

  ASSERT_THAT(ends, SizeIs(13));
  const auto after = [&](auto end) {
    return std::chrono::floor<milliseconds>(end - settings_.begin);
  };
  EXPECT_EQ(after(ends.front()), milliseconds(21'000));  // of 42 s
  EXPECT_EQ(after(ends.back()), milliseconds(51'000));   // half of what is left
}

TEST_F(Search, WaitingForTheTurnToTimeDoesNotCount) {
  settings_.budget_ms = 1000;
  context_.timing_turn = [](const Cancellation&) -> Turns::Place {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return nullptr;
  };
  std::vector<std::chrono::steady_clock::time_point> ends;
  space_.during_build = [&](std::size_t, const Cancellation& cancel) {
    ends.push_back(cancel.deadline.value());
  };

  (void)search();

  EXPECT_GE(ends.back() - settings_.begin, std::chrono::milliseconds(1050));
}

TEST_F(Search, OneBuildServesAllThatShareIt) {
  space_.groups = 3;
  settings_.stages.stand_ins = false;

  (void)search();

  EXPECT_THAT(space_.built, ElementsAre(Pair(k_full, 0), Pair(k_full, 1), Pair(k_full, 2)));
  EXPECT_THAT(space_.batches.at(0), ElementsAre(0, 3, 6, 9, 1, 4, 7, 2, 5, 8));
  EXPECT_TRUE(space_.right_builds);
}

TEST_F(Search, NotesOfBothStagesStay) {
  space_.notes = {{{k_stand_in, 0}, "spills 8 bytes"},
                  {{k_full, 0}, "spills 16 bytes"},
                  {{k_full, 1}, "spills 24 bytes"}};

  const SearchTrace trace = search().trace;

  EXPECT_EQ(trace.entries[0].note, "spills 8 bytes; in full: spills 16 bytes");
  EXPECT_EQ(trace.entries[1].note, "spills 24 bytes");
  EXPECT_EQ(trace.entries[2].note, "");
}

TEST_F(Search, TheTraceSaysWhatWasSearchedHow) {
  settings_.mode = SearchMode::proxy;
  settings_.budget_ms = 1234;

  const SearchTrace trace = search().trace;

  EXPECT_EQ(trace.mode, SearchMode::proxy);
  EXPECT_EQ(trace.ranked_by, "made up");
  EXPECT_EQ(trace.budget_ms, 1234);
  ASSERT_THAT(trace.entries, SizeIs(10));
  EXPECT_EQ(trace.entries[3].tile, "c3");
  EXPECT_EQ(trace.entries[3].m1, 3);
  EXPECT_EQ(trace.entries[3].n1, 30);
  EXPECT_EQ(trace.entries[3].score, -3);
}

TEST_F(Search, OfNothingToTimeBuildsNothing) {
  space_.given.nothing_to_time = true;

  const SearchOutcome found = search();

  EXPECT_THAT(space_.built, IsEmpty());
  EXPECT_FALSE(found.trace.timed);
  EXPECT_THAT(found.trace.entries, SizeIs(10));
}

TEST_F(Search, OfManyKernelsTheBestAreTimedAgainSeveralLoadsEachAndAreConfirmed) {
  space_.given.loads = 3;
  space_.given.few = 2;
  settings_.stages.stand_ins = false;
  settings_.stages.confirmed = 2;

  const SearchTrace trace = search().trace;

  ASSERT_THAT(space_.batches, SizeIs(2));
  EXPECT_THAT(space_.batches[1], ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_TRUE(trace.entries[1].confirmed);
  EXPECT_FALSE(trace.entries[2].confirmed);
}

TEST_F(Search, WhatWasTimedOnceStaysWhereItsConfirmationFails) {
  space_.given.loads = 3;
  space_.given.few = 2;
  settings_.stages.stand_ins = false;
  settings_.stages.confirmed = 2;
  space_.result_of = [this](const TuningJob& job) {
    return space_.batches.size() > 1 ? made_up_failure("no luck")
                                     : made_up_time(static_cast<double>(job.candidate) + 1);
  };

  const SearchOutcome found = search();

  EXPECT_THAT(space_.batches, SizeIs(2));
  EXPECT_EQ(found.trace.chosen, 0U);
  EXPECT_NE(found.build, nullptr);
  EXPECT_EQ(outcome_of(found.trace.entries[0].full), "finished");
  EXPECT_EQ(outcome_of(found.trace.entries[1].full), "finished");
  EXPECT_FALSE(found.trace.entries[1].confirmed);
}

TEST_F(Search, BuildingEndsWithTheCompilationsDeadlineWhereThatIsEarlier) {
  const auto deadline = settings_.begin + std::chrono::seconds(20);
  context_.cancel.deadline = deadline;
  std::vector<std::chrono::steady_clock::time_point> ends;
  space_.during_build = [&](std::size_t, const Cancellation& cancel) {
    ends.push_back(cancel.deadline.value());
  };

  (void)search();

  EXPECT_THAT(ends, SizeIs(13));
  EXPECT_THAT(ends, testing::Each(deadline));  // of stages that end after 42 s and 60 s
}

TEST_F(Search, ABuildThatManyShareCountsOnceInABatch) {
  space_.groups = 2;
  space_.bytes = 60;
  space_.given.batch_bytes = 100;
  settings_.stages.stand_ins = false;

  (void)search();

  EXPECT_THAT(space_.batches, ElementsAre(ElementsAre(0, 2, 4, 6, 8, 1), SizeIs(5)));
}

TEST_F(Search, ReportsBuildingOnlyWhereTheFamilyNamesIt) {
  std::vector<std::string> lines;
  context_.progress = [&](const SearchProgress& now) {
    lines.push_back(std::string(now.stage) + " " + std::to_string(now.done) + "/" +
                    std::to_string(now.total));
  };
  settings_.stages.top_k = 2;
  settings_.stages.finalists = 0;

  (void)search();
  EXPECT_THAT(lines, IsEmpty());

  space_.given.build_stage = "compiling";
  (void)search();
  EXPECT_THAT(lines, ElementsAre("compiling 1/2", "compiling 2/2"));
}

}  // namespace

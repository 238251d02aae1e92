// Searches whose candidates are built by several threads.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "proxy/search.hpp"
#include "spjit/error.hpp"
#include "tests/unit/proxy/made_up_space.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using testing::IsEmpty;

constexpr int k_threads = 4;

void set_builders(MadeUpSpace& space, int threads) {
  space.given.stand_in_builders = space.given.full_builders = threads;
}

/// The trace without the times that the search itself took.
nlohmann::json compared(SearchTrace trace) {
  trace.rank_ms = trace.proxy_ms = trace.full_ms = 0;
  return to_json(trace);
}

/// Forty candidates of seven builds, two of which fail; candidates near 20 are fastest.
void fill(MadeUpSpace& space, int threads) {
  set_builders(space, threads);
  space.groups = 7;
  space.failing_stand_ins = {{3, "no"}};
  space.failing_in_full = {{5, "neither"}};
  space.given.stand_ins_decide = true;
  space.result_of = [](const TuningJob& job) {
    return made_up_time(1 + std::abs(20.25 - static_cast<double>(job.candidate)));
  };
  // Later builds are done first.
  space.during_build = [](std::size_t candidate, const Cancellation&) {
    std::this_thread::sleep_for(std::chrono::microseconds(700 - 100 * candidate));
  };
}

/// Whether the caller builds too, and bytes of a batch.
class ParallelSearchInBatches : public testing::TestWithParam<std::tuple<bool, std::size_t>> {};

TEST_P(ParallelSearchInBatches, FindsWhatOneThreadFinds) {
  MadeUpSpace alone(40);
  MadeUpSpace together(40);
  fill(alone, 1);
  fill(together, k_threads);
  std::tie(together.given.short_builds, together.given.batch_bytes) = GetParam();
  alone.given.batch_bytes = together.given.batch_bytes;

  const SearchTrace expected = search(alone, {}, {}).trace;
  const SearchTrace found = search(together, {}, {}).trace;

  EXPECT_EQ(compared(found), compared(expected));
  EXPECT_EQ(together.batches, alone.batches);
  EXPECT_TRUE(together.right_builds);
  EXPECT_TRUE(found.timed);
}

INSTANTIATE_TEST_SUITE_P(All, ParallelSearchInBatches,
                         testing::Combine(testing::Bool(), testing::Values(1, 3, 1000)));

TEST(ParallelSearch, OfShortBuildsTheCallerBuildsToo) {
  MadeUpSpace space(40);
  set_builders(space, 2);
  space.given.short_builds = true;
  std::atomic<int> by_caller = 0;
  std::atomic<int> by_others = 0;
  space.during_build = [&, here = std::this_thread::get_id()](std::size_t, const Cancellation&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ++(std::this_thread::get_id() == here ? by_caller : by_others);
  };
  SearchSettings settings;
  settings.stages.stand_ins = false;

  (void)search(space, settings, {});

  EXPECT_EQ(by_caller + by_others, 40);
  EXPECT_GT(by_caller, 1);
  EXPECT_GT(by_others, 0);
}

TEST(ParallelSearch, BuildsNothingWhileItTimes) {
  MadeUpSpace space(40);
  fill(space, k_threads);
  space.given.batch_bytes = 2;

  (void)search(space, {}, {});

  EXPECT_FALSE(space.built_while_timing);
}

TEST(ParallelSearch, BuildsLittleMoreAtOnceThanABatch) {
  MadeUpSpace space(40);
  set_builders(space, k_threads);
  space.given.batch_bytes = 2;

  (void)search(space, {}, {});

  // A batch, the best so far, and what the other threads were building.
  EXPECT_LE(space.most_alive, 2 + 1 + k_threads - 1);
}

TEST(ParallelSearch, UsesSeveralThreads) {
  MadeUpSpace space(2);
  set_builders(space, 2);
  std::atomic<int> inside = 0;
  space.during_build = [&](std::size_t, const Cancellation& cancel) {
    ++inside;
    while (inside < 2 && !cancel.reached()) std::this_thread::yield();
  };
  SearchSettings settings;
  settings.stages.stand_ins = false;

  const SearchTrace trace = search(space, settings, {}).trace;

  EXPECT_TRUE(trace.timed);
  EXPECT_EQ(inside, 2);
}

TEST(ParallelSearch, IsEndedByWhatABuildThrowsAndTheOthersAreTold) {
  MadeUpSpace space(2);
  set_builders(space, 2);
  std::atomic<bool> has_begun = false;
  std::atomic<bool> told = false;
  space.during_build = [&](std::size_t candidate, const Cancellation& cancel) {
    if (candidate == 0) {
      while (!has_begun) std::this_thread::yield();
      throw std::bad_alloc();
    }
    has_begun = true;
    while (!cancel.reached()) std::this_thread::yield();
    told = cancel.stop.stop_requested();
  };

  EXPECT_THROW((void)search(space, {}, {}), std::bad_alloc);

  EXPECT_TRUE(told);
  EXPECT_THAT(space.batches, IsEmpty());
}

TEST(ParallelSearch, IsEndedByACallbackThatThrows) {
  MadeUpSpace space(40);
  set_builders(space, k_threads);
  space.given.build_stage = "building";
  CompileContext context;
  context.progress = [](const SearchProgress&) { throw std::runtime_error("enough"); };

  EXPECT_THROW((void)search(space, {}, context), std::runtime_error);

  EXPECT_THAT(space.batches, IsEmpty());
}

TEST(ParallelSearch, ReportsFromTheThreadThatSearches) {
  MadeUpSpace space(40);
  set_builders(space, k_threads);
  space.given.build_stage = "building";
  CompileContext context;
  std::vector<std::size_t> done;
  bool elsewhere = false;
  context.progress = [&, here = std::this_thread::get_id()](const SearchProgress& now) {
    elsewhere = elsewhere || std::this_thread::get_id() != here;
    if (now.stage == "building") done.push_back(now.done);
  };
  SearchSettings settings;
  settings.stages.stand_ins = false;

  (void)search(space, settings, context);

  ASSERT_EQ(done.size(), 40U);
  for (std::size_t i = 0; i < done.size(); ++i) EXPECT_EQ(done[i], i + 1);
  EXPECT_FALSE(elsewhere);
}

TEST(ParallelSearch, IsCancelledWhileThreadsBuild) {
  for (const auto& [threads, is_short] :
       {std::pair(1, false), std::pair(k_threads, false), std::pair(k_threads, true)}) {
    MadeUpSpace space(40);
    set_builders(space, threads);
    space.given.short_builds = is_short;
    std::stop_source stop;
    space.during_build = [&](std::size_t, const Cancellation& cancel) {
      stop.request_stop();
      while (!cancel.reached()) std::this_thread::yield();
    };
    CompileContext context;
    context.cancel.stop = stop.get_token();

    EXPECT_THROW((void)search(space, {}, context), Cancelled);

    EXPECT_LE(space.built.size(), static_cast<std::size_t>(threads));
    EXPECT_THAT(space.batches, IsEmpty());
  }
}

TEST(ParallelSearch, WhatTheBudgetCutsOffWasNotReachedAndTheOthersAreTimed) {
  for (const int threads : {1, k_threads}) {
    MadeUpSpace space(6);
    set_builders(space, threads);
    space.given.build_share = 0.5;
    space.during_build = [&](std::size_t candidate, const Cancellation& cancel) {
      while (candidate >= 2 && !cancel.reached()) std::this_thread::yield();
    };
    SearchSettings settings;
    settings.stages.stand_ins = false;
    settings.budget_ms = 200;
    settings.begin = std::chrono::steady_clock::now();

    const SearchTrace trace = search(space, settings, {}).trace;

    EXPECT_TRUE(trace.timed);
    EXPECT_EQ(space.batches, (std::vector<std::vector<std::size_t>>{{0, 1}}));
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(trace.entries[i].full->outcome,
                i < 2 ? TuningOutcome::finished : TuningOutcome::not_reached);
      EXPECT_EQ(trace.entries[i].full->failure, "");
    }
  }
}

}  // namespace

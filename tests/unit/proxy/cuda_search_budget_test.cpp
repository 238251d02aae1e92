// What a search on a GPU does while it lasts: its time, its progress, how it is ended.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "spjit/error.hpp"
#include "tests/support/cuda/cuda_search_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using testing::IsEmpty;
using Clock = std::chrono::steady_clock;

class CudaSearchBudget : public ::testing::Test {
 protected:
  SearchTrace search(const CudaSearchTools& tools, SearchMode mode) {
    given_.options.policy.search = mode;
    return search_cuda_tile(given_.input(), given_.ranked, tools, {}, context_);
  }

  /// Each entry has a result that says so, and no reason.
  static void expect_not_reached(const SearchTrace& trace,
                                 std::optional<TuningResult> SearchTraceEntry::*member) {
    EXPECT_FALSE(trace.timed);
    EXPECT_EQ(trace.chosen, 0U);
    for (const SearchTraceEntry& entry : trace.entries) {
      ASSERT_TRUE(entry.*member) << entry.tile;
      EXPECT_EQ((entry.*member)->outcome, TuningOutcome::not_reached) << entry.tile;
      EXPECT_EQ((entry.*member)->failure, "") << entry.tile;
    }
  }

  MadeUpSearch given_;
  CompileContext context_;
  MadeUpTools made_up_;
};

TEST_F(CudaSearchBudget, OfZeroReachesNothing) {
  given_.options.policy.search_budget_ms = 0;

  expect_not_reached(search(made_up_.tools(), SearchMode::proxy), &SearchTraceEntry::proxy);
  expect_not_reached(search(made_up_.tools(), SearchMode::exhaustive), &SearchTraceEntry::full);

  EXPECT_THAT(made_up_.proxies, IsEmpty());
  EXPECT_THAT(made_up_.kernels, IsEmpty());
  EXPECT_THAT(made_up_.candidates, IsEmpty());
}

TEST_F(CudaSearchBudget, SevenTenthsAreForCompilingAndWhatIsLeftForTheRace) {
  const Clock::time_point before = Clock::now();

  (void)search(made_up_.tools(), SearchMode::proxy);

  const Clock::time_point after = Clock::now();
  for (const auto& deadline : made_up_.deadlines) {
    ASSERT_TRUE(deadline);
    EXPECT_GE(*deadline, before + std::chrono::seconds(42));
    EXPECT_LE(*deadline, after + std::chrono::seconds(42));
  }
  EXPECT_GT(made_up_.tuning_budget_ms, 0);
  EXPECT_LE(made_up_.tuning_budget_ms, 60'000);
}

TEST_F(CudaSearchBudget, WhatIsGivenUpWhenTheTimeIsUpWasNotReached) {
  given_.options.policy.search_budget_ms = 1;
  CudaSearchTools tools = made_up_.tools();
  const auto wait = [](const Cancellation& cancel) {
    while (!cancel.reached()) std::this_thread::yield();
  };
  tools.compile_proxy = [&](const CudaProxy&, const Cancellation& cancel) {
    wait(cancel);
    CompiledCudaProxy given_up;
    given_up.failure = "given up";
    return given_up;
  };
  tools.compile_kernel = [&](const CudaCandidate&, const Cancellation& cancel) -> CudaKernelImage {
    wait(cancel);
    throw CompileCancelled("given up");
  };

  expect_not_reached(search(tools, SearchMode::proxy), &SearchTraceEntry::proxy);
  expect_not_reached(search(tools, SearchMode::exhaustive), &SearchTraceEntry::full);
}

TEST_F(CudaSearchBudget, ARaceThatEndsBeforeAllHadASampleChoosesAmongThoseThatHad) {
  for (std::size_t i = 0; i < given_.ranked.size(); ++i) {
    if (i != 3) made_up_.results[given_.name(i)] = TuningResult{};
  }

  const SearchTrace trace = search(made_up_.tools(), SearchMode::ranked);

  EXPECT_TRUE(trace.timed);
  EXPECT_EQ(trace.chosen, 3U);
}

/// "compiling 1/2" and so on, with the best if there is one.
std::string line_of(const SearchProgress& progress) {
  std::string line = std::string(progress.stage) + " " + std::to_string(progress.done) + "/" +
                     std::to_string(progress.total);
  if (!progress.best.empty()) line += " " + std::string(progress.best);
  return line;
}

TEST_F(CudaSearchBudget, ProgressIsOfCompilingAndThenOfTheRace) {
  made_up_.during_race = [](const TuningOptions& options) {
    options.progress({.settled = 3, .entries = 5, .best = "a tile", .best_us = 2, .ms_left = 500});
  };
  std::vector<std::string> lines;
  double left_in_the_race = 0;
  context_.progress = [&](const SearchProgress& progress) {
    lines.push_back(line_of(progress));
    left_in_the_race = progress.seconds_left;
    EXPECT_GE(progress.seconds_left, 0);
  };

  (void)search(made_up_.tools(), SearchMode::proxy);

  ASSERT_GE(lines.size(), 2U);
  EXPECT_EQ(lines[lines.size() - 2], "compiling 2/2");
  EXPECT_EQ(lines.back(), "proxies 3/5 a tile");
  EXPECT_EQ(left_in_the_race, 0.5);
}

TEST_F(CudaSearchBudget, ProgressOfWholeKernelsCountsThoseThatFailToo) {
  made_up_.during_race = [](const TuningOptions& options) {
    TuningProgress begun;
    begun.entries = 4;
    options.progress(begun);
  };
  made_up_.failing_kernel = given_.name(4);
  std::vector<std::string> lines;
  context_.progress = [&](const SearchProgress& progress) { lines.push_back(line_of(progress)); };

  (void)search(made_up_.tools(), SearchMode::exhaustive);

  EXPECT_EQ(lines, (std::vector<std::string>{"compiling 1/5", "compiling 2/5", "compiling 3/5",
                                             "compiling 4/5", "compiling 5/5", "kernels 0/4"}));
}

TEST_F(CudaSearchBudget, WithoutACallbackTheRaceHasNone) {
  bool has_one = true;
  made_up_.during_race = [&](const TuningOptions& options) {
    has_one = static_cast<bool>(options.progress);
  };

  (void)search(made_up_.tools(), SearchMode::proxy);

  EXPECT_FALSE(has_one);
}

TEST_F(CudaSearchBudget, ACallbackThatThrowsEndsTheSearchAndWhatIsBeingCompiled) {
  std::atomic<bool> has_begun = false;
  std::atomic<bool> told_to_stop = false;
  CudaSearchTools tools = made_up_.tools(2);
  tools.compile_proxy = [&](const CudaProxy& proxy, const Cancellation& cancel) {
    CompiledCudaProxy compiled;
    if (proxy.spec.tile.m1 == 8) {
      while (!has_begun) std::this_thread::yield();
      return compiled;
    }
    has_begun = true;
    while (!cancel.reached()) std::this_thread::yield();
    told_to_stop = cancel.stop.stop_requested();
    return compiled;
  };
  context_.progress = [](const SearchProgress&) { throw std::runtime_error("enough"); };

  EXPECT_THROW((void)search(tools, SearchMode::proxy), std::runtime_error);

  EXPECT_TRUE(told_to_stop);
  EXPECT_THAT(made_up_.candidates, IsEmpty());
}

}  // namespace

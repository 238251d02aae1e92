
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "spjit/error.hpp"
#include "tests/support/cuda/cuda_search_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

/// What a result says apart from its times, "-" for none.
std::string outcome(const std::optional<TuningResult>& result) {
  if (!result) return "-";
  return std::string(to_string(result->outcome)) +
         (result->failure.empty() ? "" : ": " + result->failure);
}

std::vector<std::string> outcomes(const SearchTrace& trace,
                                  std::optional<TuningResult> SearchTraceEntry::*member) {
  std::vector<std::string> all;
  for (const SearchTraceEntry& entry : trace.entries) all.push_back(outcome(entry.*member));
  return all;
}

class CudaSearchTest : public ::testing::Test {
 protected:
  SearchTrace search(SearchMode mode, const CudaReductions& reductions = {}, int threads = 1) {
    given_.options.policy.search = mode;
    return search_cuda_tile(given_.input(), given_.ranked, made_up_.tools(threads), reductions);
  }

  MadeUpSearch given_;
  MadeUpTools made_up_;
};

TEST_F(CudaSearchTest, RankedTimesTheProxiesOfTheFirstContenders) {
  given_.options.policy.top_k = 3;
  made_up_.results[given_.name(2)] = finished_in(7);

  const SearchTrace trace = search(SearchMode::ranked);

  EXPECT_EQ(made_up_.proxy_m1s(), (std::vector<std::int64_t>{8, 16}));
  EXPECT_THAT(made_up_.timed(),
              UnorderedElementsAre(given_.name(0), given_.name(1), given_.name(2)));
  EXPECT_THAT(outcomes(trace, &SearchTraceEntry::proxy),
              ElementsAre("finished", "finished", "finished", "-", "-"));
  EXPECT_THAT(outcomes(trace, &SearchTraceEntry::full), Each("-"));
  EXPECT_THAT(made_up_.kernels, IsEmpty());
  EXPECT_EQ(trace.chosen, 2U);
  EXPECT_TRUE(trace.timed);
  EXPECT_TRUE(trace.proxies);
}

TEST_F(CudaSearchTest, RankedTakesAllWhereThereAreFewerThanContenders) {
  given_.options.policy.top_k = 6;

  const SearchTrace trace = search(SearchMode::ranked);

  EXPECT_THAT(outcomes(trace, &SearchTraceEntry::proxy), Each("finished"));
}

TEST_F(CudaSearchTest, ProxyTimesAllWithOneProxyForAnM1) {
  given_.options.policy.top_k = 1;
  made_up_.results[given_.name(4)] = finished_in(99);

  const SearchTrace trace = search(SearchMode::proxy);

  EXPECT_EQ(made_up_.proxy_m1s(), (std::vector<std::int64_t>{8, 16}));
  EXPECT_THAT(outcomes(trace, &SearchTraceEntry::proxy), Each("finished"));
  for (std::size_t i = 0; i < made_up_.candidates.size(); ++i) {
    const CudaTuningCandidate& candidate = made_up_.candidates[i];
    EXPECT_EQ(made_up_.images[i], candidate.name.starts_with("rows=8 ") ? "proxy 8" : "proxy 16");
    // Loaded once.
    EXPECT_EQ(candidate.image.data(), made_up_.candidates[i < 3 ? 0 : 3].image.data());
  }
  EXPECT_EQ(trace.chosen, 4U);
}

TEST_F(CudaSearchTest, WithoutTheReductionOfKernelsEveryCandidateHasAProxy) {
  const SearchTrace trace = search(SearchMode::proxy, {.kernels = false});

  EXPECT_EQ(made_up_.proxy_m1s(), (std::vector<std::int64_t>{8, 16, 8, 16, 8}));
  EXPECT_EQ(made_up_.proxies[2].spec.tile.n1, 128);
  EXPECT_THAT(outcomes(trace, &SearchTraceEntry::proxy), Each("finished"));
}

TEST_F(CudaSearchTest, ProxiesHaveTheKernelsLeadingDimensionsAndReductions) {
  Problem padded = given_.problem;
  padded.b.leading_dimension = 300;
  padded.c.leading_dimension = 301;
  MadeUpSearch given(padded);

  (void)search_cuda_tile(given.input(), given.ranked, made_up_.tools());
  (void)search_cuda_tile(given.input(), given.ranked, made_up_.tools(),
                         {.blocks = false, .iterations = false});

  ASSERT_EQ(made_up_.proxies.size(), 4U);
  EXPECT_EQ(made_up_.proxies[0].spec.ldb, 300);
  EXPECT_EQ(made_up_.proxies[0].spec.ldc, 301);
  EXPECT_EQ(made_up_.proxies[0].spec.n, 256);
  EXPECT_LT(made_up_.proxies[0].proxy.plan.grouping.tiles(), given.ranked[0].row_tiles);
  EXPECT_EQ(made_up_.proxies[2].proxy.plan.grouping.tiles(), given.ranked[0].row_tiles);
  EXPECT_EQ(made_up_.proxies[2].proxy.plan.nnz(), padded.a->nnz());
}

TEST_F(CudaSearchTest, ProxiesAreLaunchedWithTheOccupancyOfTheKernelUnlessThatIsOff) {
  given_.limits.sms = 1;
  given_.ranked[2].occupancy.active_blocks = 5;  // of 80; 24 registers a thread allow 16
  std::int64_t most_shared = 0;

  (void)search(SearchMode::proxy);

  for (const CudaCandidate& candidate : given_.ranked) {
    const CudaProxyLaunch expected = launch_of(candidate, 24, given_.limits);
    const auto found = std::ranges::find(made_up_.candidates, to_string(candidate.tile),
                                         &CudaTuningCandidate::name);
    ASSERT_NE(found, made_up_.candidates.end());
    EXPECT_EQ(found->launch.grid_x, candidate.row_tiles);
    EXPECT_EQ(found->launch.grid_y, candidate.column_tiles);
    EXPECT_EQ(found->launch.threads, candidate.tile.n1);
    EXPECT_EQ(found->launch.tiles_a_block, candidate.tile.tiles_a_block);
    EXPECT_EQ(found->launch.dynamic_shared_bytes, expected.dynamic_shared_bytes);
    most_shared = std::max(most_shared, expected.dynamic_shared_bytes);
  }
  EXPECT_GT(most_shared, 0);

  (void)search(SearchMode::proxy, {.occupancy = false});

  for (const CudaTuningCandidate& candidate : made_up_.candidates) {
    EXPECT_EQ(candidate.launch.dynamic_shared_bytes, 0) << candidate.name;
  }
}

TEST_F(CudaSearchTest, ExhaustiveTimesWholeKernelsOfAll) {
  given_.options.policy.top_k = 1;
  made_up_.results[given_.name(3)] = finished_in(50);

  const SearchTrace trace = search(SearchMode::exhaustive);

  EXPECT_THAT(made_up_.proxies, IsEmpty());
  EXPECT_THAT(made_up_.kernels, ElementsAre(given_.name(0), given_.name(1), given_.name(2),
                                            given_.name(3), given_.name(4)));
  EXPECT_EQ(made_up_.timed(), made_up_.kernels);
  for (std::size_t i = 0; i < given_.ranked.size(); ++i) {
    const CudaProxyLaunch& launch = made_up_.candidates[i].launch;
    EXPECT_EQ(made_up_.images[i], "kernel " + given_.name(i));
    EXPECT_EQ(launch.grid_x, given_.ranked[i].row_tiles + 2);
    EXPECT_EQ(launch.grid_y, given_.ranked[i].column_tiles);
    EXPECT_EQ(launch.threads, given_.ranked[i].tile.n1);
    EXPECT_EQ(launch.dynamic_shared_bytes, 0);
  }
  EXPECT_THAT(outcomes(trace, &SearchTraceEntry::full), Each("finished"));
  EXPECT_THAT(outcomes(trace, &SearchTraceEntry::proxy), Each("-"));
  EXPECT_EQ(trace.chosen, 3U);
  EXPECT_TRUE(trace.timed);
  EXPECT_FALSE(trace.proxies);
}

TEST_F(CudaSearchTest, TheTraceSaysWhatWasRankedHow) {
  given_.options.policy.search_budget_ms = 1234;

  const SearchTrace trace = search(SearchMode::proxy);

  EXPECT_EQ(trace.mode, SearchMode::proxy);
  EXPECT_EQ(trace.ranked_by, "prior");
  EXPECT_EQ(trace.budget_ms, 1234);
  ASSERT_EQ(trace.entries.size(), 5U);
  EXPECT_EQ(trace.entries[1].tile, given_.name(1));
  EXPECT_EQ(trace.entries[1].m1, 16);
  EXPECT_EQ(trace.entries[1].n1, 64);
  EXPECT_EQ(trace.entries[1].score, -2);
}

TEST_F(CudaSearchTest, WhatSpillsIsTimedAndNoted) {
  made_up_.spilled_bytes = 48;
  for (const SearchMode mode : {SearchMode::proxy, SearchMode::exhaustive}) {
    const SearchTrace trace = search(mode);

    EXPECT_TRUE(trace.timed);
    EXPECT_TRUE(trace.entries[0].note.starts_with("spills 48 bytes a thread"));
    EXPECT_EQ(to_json(trace)["entries"][0]["note"], trace.entries[0].note);
  }
  made_up_.spilled_bytes = 0;
  const SearchTrace trace = search(SearchMode::exhaustive);
  EXPECT_EQ(trace.entries[0].note, "");
  EXPECT_FALSE(to_json(trace)["entries"][0].contains("note"));
}

TEST_F(CudaSearchTest, AProxyThatDoesNotCompileIsRecordedAndTheOthersAreTimed) {
  made_up_.proxy_failures[8] = "ptxas: too many branches";

  const SearchTrace trace = search(SearchMode::proxy);

  const std::string failed = "failed: ptxas: too many branches";
  EXPECT_THAT(outcomes(trace, &SearchTraceEntry::proxy),
              ElementsAre(failed, "finished", failed, "finished", failed));
  EXPECT_THAT(made_up_.timed(), ElementsAre(given_.name(1), given_.name(3)));
  EXPECT_EQ(trace.chosen, 1U);
}

TEST_F(CudaSearchTest, AKernelThatDoesNotCompileIsRecordedAndTheOthersAreTimed) {
  made_up_.failing_kernel = given_.name(0);

  const SearchTrace trace = search(SearchMode::exhaustive);

  EXPECT_THAT(
      outcomes(trace, &SearchTraceEntry::full),
      ElementsAre("failed: no registers left", "finished", "finished", "finished", "finished"));
  EXPECT_EQ(trace.chosen, 1U);
}

TEST_F(CudaSearchTest, WhereNothingCompilesTheFirstIsChosenUntimed) {
  made_up_.proxy_failures = {{8, "no"}, {16, "no either"}};

  const SearchTrace trace = search(SearchMode::proxy);

  EXPECT_THAT(made_up_.timed(), IsEmpty());
  EXPECT_THAT(outcomes(trace, &SearchTraceEntry::proxy),
              ElementsAre("failed: no", "failed: no either", "failed: no", "failed: no either",
                          "failed: no"));
  EXPECT_FALSE(trace.timed);
  EXPECT_EQ(trace.chosen, 0U);
}

TEST_F(CudaSearchTest, AContestantThatFaultsIsRecordedAndNotChosen) {
  made_up_.results[given_.name(0)] = failed_because("illegal address");
  made_up_.results[given_.name(1)] = finished_in(60);

  const SearchTrace trace = search(SearchMode::proxy);

  EXPECT_EQ(outcome(trace.entries[0].proxy), "failed: illegal address");
  EXPECT_EQ(trace.chosen, 1U);
  EXPECT_TRUE(trace.timed);
}

TEST_F(CudaSearchTest, WhereAllFaultTheFirstIsChosenUntimed) {
  for (std::size_t i = 0; i < given_.ranked.size(); ++i) {
    made_up_.results[given_.name(i)] = failed_because("illegal address");
  }
  for (const SearchMode mode : {SearchMode::ranked, SearchMode::exhaustive}) {
    const SearchTrace trace = search(mode);

    EXPECT_FALSE(trace.timed);
    EXPECT_EQ(trace.chosen, 0U);
  }
}

TEST_F(CudaSearchTest, SeveralThreadsFindTheSame) {
  made_up_.proxy_failures[16] = "no";
  made_up_.results[given_.name(4)] = finished_in(1);
  const SearchTrace alone = search(SearchMode::proxy, {.kernels = false});
  const std::vector<std::string> timed_alone = made_up_.timed();
  made_up_.proxies.clear();

  const SearchTrace together = search(SearchMode::proxy, {.kernels = false}, 8);

  EXPECT_EQ(made_up_.proxies.size(), 5U);
  EXPECT_EQ(made_up_.timed(), timed_alone);
  EXPECT_EQ(outcomes(together, &SearchTraceEntry::proxy),
            outcomes(alone, &SearchTraceEntry::proxy));
  EXPECT_EQ(together.chosen, 4U);
}

TEST_F(CudaSearchTest, OfNothingToComputeOrNothingToChooseFromTimesNothing) {
  MadeUpSearch empty(cuda_problem({3, 4, {0, 0, 0, 0}, {}, {}}, 256));
  for (const SearchMode mode : {SearchMode::proxy, SearchMode::exhaustive}) {
    empty.options.policy.search = mode;

    const SearchTrace nothing = search_cuda_tile(empty.input(), empty.ranked, made_up_.tools());
    const SearchTrace none = search_cuda_tile(given_.input(), {}, made_up_.tools());

    EXPECT_FALSE(nothing.timed);
    EXPECT_EQ(nothing.entries.size(), 5U);
    EXPECT_FALSE(none.timed);
    EXPECT_THAT(none.entries, IsEmpty());
  }
  EXPECT_THAT(made_up_.proxies, IsEmpty());
  EXPECT_THAT(made_up_.kernels, IsEmpty());
}

}  // namespace

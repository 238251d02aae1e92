// Searches on a GPU whose best proxies are then compiled and timed in full.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>

#include "tests/support/cuda/cuda_search_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using testing::ElementsAre;

class CudaSearchFinalists : public ::testing::Test {
 protected:
  CudaSearchFinalists() {
    // By proxy candidate 3 is the best, then 1, then the first of the others.
    made_up_.results[given_.name(3)] = finished_in(10);
    made_up_.results[given_.name(1)] = finished_in(20);
    made_up_.full_results.emplace();
  }

  SearchOutcome search(std::size_t finalists) {
    return search_cuda(given_.input(), given_.ranked, made_up_.tools(), {}, finalists);
  }

  MadeUpSearch given_;
  MadeUpTools made_up_;
};

TEST_F(CudaSearchFinalists, AreTheBestByProxyAndTheFirstRankedAndTheFastestInFullIsChosen) {
  made_up_.full_results = {{given_.name(3), finished_in(90)}, {given_.name(1), finished_in(70)}};

  const SearchOutcome found = search(2);

  EXPECT_THAT(made_up_.kernels, ElementsAre(given_.name(3), given_.name(1), given_.name(0)));
  EXPECT_EQ(found.trace.chosen, 1U);
  EXPECT_TRUE(found.trace.timed);
  EXPECT_TRUE(found.trace.proxies);
  EXPECT_EQ(found.trace.entries[1].proxy->timing.median_us, 20);
  EXPECT_EQ(found.trace.entries[1].full->timing.median_us, 70);
  EXPECT_TRUE(found.trace.entries[0].full);
  EXPECT_FALSE(found.trace.entries[2].full);
}

TEST_F(CudaSearchFinalists, TheFirstRankedWinsThoughItsProxyIsSlow) {
  made_up_.full_results = {{given_.name(3), finished_in(90)}, {given_.name(0), finished_in(60)}};

  EXPECT_EQ(search(2).trace.chosen, 0U);
}

TEST_F(CudaSearchFinalists, HandOverTheWinnersKernel) {
  made_up_.full_results = {{given_.name(1), finished_in(70)}};

  const SearchOutcome found = search(2);

  const auto kernel = CudaTunable::kernel_of(found.build.get());
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->trace.note, "built " + given_.name(1));
}

TEST_F(CudaSearchFinalists, OneThatDoesNotCompileIsRecordedAndTheOtherIsChosen) {
  made_up_.failing_kernel = given_.name(3);
  made_up_.full_results = {{given_.name(1), finished_in(70)}};

  const SearchOutcome found = search(2);

  EXPECT_EQ(found.trace.entries[3].full->failure, "no registers left");
  EXPECT_EQ(found.trace.chosen, 1U);
}

TEST_F(CudaSearchFinalists, ThatAllFaultLeaveTheChoiceToTheProxies) {
  made_up_.full_results = {{given_.name(3), failed_because("illegal address")},
                           {given_.name(1), failed_because("illegal address")},
                           {given_.name(0), failed_because("illegal address")}};

  const SearchOutcome found = search(2);

  EXPECT_EQ(found.trace.chosen, 3U);
  EXPECT_TRUE(found.trace.timed);
  EXPECT_EQ(CudaTunable::kernel_of(found.build.get()), nullptr);
}

TEST_F(CudaSearchFinalists, AreCompiledInSevenTenthsOfWhatProxiesLeave) {
  using std::chrono::milliseconds;
  const auto before = std::chrono::steady_clock::now();

  (void)search(1);

  const auto after = std::chrono::steady_clock::now();
  // Proxies have 42 s of 60 for compiling and timing, finalists the other 18.
  EXPECT_GE(made_up_.deadlines.at(0).value(), before + milliseconds(29'400));
  EXPECT_LE(made_up_.deadlines.at(0).value(), after + milliseconds(29'400));
  EXPECT_GE(made_up_.kernel_deadlines.at(0).value(), before + milliseconds(54'600));
}

TEST_F(CudaSearchFinalists, AreTheFirstRankedAloneWhereNoProxyIsTimed) {
  made_up_.proxy_failures = {{8, "no"}, {16, "no either"}};

  const SearchOutcome found = search(3);

  EXPECT_THAT(made_up_.kernels, ElementsAre(given_.name(0)));
  EXPECT_EQ(found.trace.chosen, 0U);
  EXPECT_TRUE(found.trace.timed);
}

TEST_F(CudaSearchFinalists, AreTimedByProxyFirstEvenIfAllAreFinalists) {
  const SearchOutcome found = search(10);

  EXPECT_TRUE(found.trace.proxies);
  for (const SearchTraceEntry& entry : found.trace.entries) EXPECT_TRUE(entry.proxy && entry.full);
}

}  // namespace

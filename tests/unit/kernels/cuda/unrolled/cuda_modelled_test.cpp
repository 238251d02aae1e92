// Who chooses where there is no GPU: the clock, among what the ranking put first.

#include "kernels/cuda/unrolled/cuda_modelled.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <stop_token>

#include "spjit/error.hpp"
#include "tests/support/cuda/cuda_search_testing.hpp"

namespace spjit {
namespace {

using testing::HasSubstr;
using testing_support::MadeUpSearch;

/// Kernels that are made up, with the cycles that a clock says of each.
class Modelled : public testing::Test {
 protected:
  Modelled() {
    given_.options.policy.search = SearchMode::ranked;
    tools_.compile_kernel = [this](const CudaCandidate& candidate, const Cancellation& /*cancel*/) {
      compiled_.push_back(to_string(candidate.tile));
      if (compiled_.back() == fails_) throw CompileFailed("made up");
      CudaKernelImage image;
      image.built = std::make_shared<const BuiltCuda>();
      images_[image.built.get()] = compiled_.back();
      return image;
    };
    tools_.model = [this](const CudaCandidate& candidate, const CudaKernelImage& /*image*/,
                          const Cancellation& /*cancel*/) {
      const std::string name = to_string(candidate.tile);
      if (name == refused_) throw NotSupported("cannot follow");
      ModelledTime time;
      time.cycles = cycles_.contains(name) ? cycles_.at(name) : 1000;
      time.us = time.cycles / 1000;
      return time;
    };
  }

  CudaModelledSearch search(const CompileContext& context = {}) {
    CudaSearchInput input = given_.input();
    input.favourite = favourite_;
    return search_by_clock(input, given_.ranked, tools_, context);
  }

  MadeUpSearch given_;
  CudaModelTools tools_;
  std::map<std::string, double> cycles_;
  std::size_t favourite_ = 0;
  std::string refused_;
  std::string fails_;
  std::vector<std::string> compiled_;
  std::map<const BuiltCuda*, std::string> images_;
};

TEST_F(Modelled, TheFewestCyclesAreChosenAndNotBuiltAgain) {
  cycles_[given_.name(2)] = 500;

  const CudaModelledSearch found = search();

  EXPECT_TRUE(found.trace.modelled);
  EXPECT_FALSE(found.trace.timed);
  EXPECT_EQ(found.trace.chosen, 2U);
  EXPECT_EQ(images_.at(found.built.get()), given_.name(2));
  EXPECT_EQ(found.trace.entries[2].modelled->cycles, 500);
  EXPECT_FALSE(found.why_not);
}

TEST_F(Modelled, OfEqualOnesTheBetterRankedIsChosen) { EXPECT_EQ(search().trace.chosen, 0U); }

TEST_F(Modelled, OnlyTheBestRankedAreAsked) {
  given_.options.policy.top_k = 2;
  cycles_[given_.name(2)] = 500;

  const CudaModelledSearch found = search();

  EXPECT_EQ(compiled_.size(), 2U);
  EXPECT_EQ(found.trace.chosen, 0U);
  EXPECT_FALSE(found.trace.entries[2].modelled);
  EXPECT_EQ(found.trace.entries.size(), given_.ranked.size());
}

/// Of a model that ranks otherwise: what instant would choose is asked, too.
TEST_F(Modelled, TheChoiceOfInstantIsAskedWhereverItIsRanked) {
  given_.options.policy.top_k = 2;
  favourite_ = 4;
  cycles_[given_.name(4)] = 500;

  const CudaModelledSearch found = search();

  // Second, so that the budget does not end before it.
  EXPECT_THAT(compiled_, testing::ElementsAre(given_.name(0), given_.name(4), given_.name(1)));
  EXPECT_EQ(found.trace.chosen, 4U);
  favourite_ = 1;
  compiled_.clear();
  EXPECT_EQ(search().trace.chosen, 0U);
  EXPECT_EQ(compiled_.size(), 2U);
}

TEST_F(Modelled, WhereTheFirstIsRefusedNoOtherIsBuiltAndTheFirstIsKept) {
  refused_ = given_.name(0);

  const CudaModelledSearch found = search();

  EXPECT_FALSE(found.trace.modelled);
  EXPECT_EQ(compiled_.size(), 1U);
  EXPECT_EQ(images_.at(found.built.get()), given_.name(0));
  EXPECT_EQ(found.why_not.reason(), "cannot follow");
}

TEST_F(Modelled, AFirstThatDoesNotCompileSaysNothingOfTheOthers) {
  given_.options.policy.top_k = 2;
  fails_ = given_.name(0);
  favourite_ = 4;

  const CudaModelledSearch found = search();

  EXPECT_TRUE(found.trace.modelled);
  EXPECT_EQ(compiled_.size(), 3U);
  EXPECT_THAT(found.trace.entries[0].modelled->failure, HasSubstr("made up"));
  // The fourth, asked before, takes as long.
  EXPECT_EQ(found.trace.chosen, 1U);
  EXPECT_EQ(images_.at(found.built.get()), given_.name(1));
}

TEST_F(Modelled, AnInstructionThatNobodyKnowsIsNoFailureOfTheCompilation) {
  tools_.model = [](const CudaCandidate& /*candidate*/, const CudaKernelImage& /*image*/,
                    const Cancellation& /*cancel*/) -> ModelledTime {
    throw Error("unknown instruction");
  };

  const CudaModelledSearch found = search();

  EXPECT_FALSE(found.trace.modelled);
  EXPECT_EQ(found.why_not.reason(), "unknown instruction");
}

TEST_F(Modelled, OneThatFailsLaterIsLeftOut) {
  fails_ = given_.name(1);
  cycles_[given_.name(3)] = 10;

  const CudaModelledSearch found = search();

  EXPECT_TRUE(found.trace.modelled);
  EXPECT_EQ(found.trace.chosen, 3U);
  EXPECT_EQ(found.trace.entries[1].modelled->failure, "made up");
}

TEST_F(Modelled, TheBudgetEndsTheSearchWithTheBestSoFar) {
  given_.options.policy.search_budget_ms = 1e-9;

  const CudaModelledSearch found = search();

  EXPECT_FALSE(found.trace.modelled);
  EXPECT_TRUE(compiled_.empty());
  EXPECT_THAT(found.why_not.reason(), HasSubstr("was spent before a kernel was modelled"));
}

TEST_F(Modelled, ABudgetThatEndsInABuildKeepsWhatWasModelled) {
  tools_.compile_kernel = [inner = tools_.compile_kernel, this](const CudaCandidate& candidate,
                                                                const Cancellation& cancel) {
    if (to_string(candidate.tile) == given_.name(1)) throw DeadlineExceeded("the budget's end");
    return inner(candidate, cancel);
  };

  const CudaModelledSearch found = search();

  EXPECT_TRUE(found.trace.modelled);
  EXPECT_FALSE(found.trace.entries[1].modelled);
}

TEST_F(Modelled, WhoStopsTheCompilationStopsTheSearch) {
  std::stop_source stop;
  stop.request_stop();
  CompileContext context;
  context.cancel.stop = stop.get_token();

  EXPECT_THROW(static_cast<void>(search(context)), Cancelled);
}

TEST(LocalModelTools, RefuseAnArchitectureWithoutConstants) {
  MadeUpSearch given;
  given.limits.arch = 86;
  const CudaSearchInput input = given.input();

  EXPECT_THROW(static_cast<void>(local_model_tools(input)), NotSupported);
}

}  // namespace
}  // namespace spjit

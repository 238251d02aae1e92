#include "kernels/host/unrolled/host_timer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "spjit/error.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::HostArtifact;
using spjit::HostIsa;
using spjit::HostTile;
using spjit::HostTuningCandidate;
using spjit::TuningOptions;
using spjit::TuningOutcome;
using spjit::testing_support::host_tile;
using spjit::testing_support::random_matrix;

/// A kernel of a 20 x 30 matrix.
HostTuningCandidate contestant_of(const HostTile& tile, std::int64_t n = 32, std::int64_t ldb = 0) {
  const auto matrix = random_matrix(20, 30, 0.7);
  const auto grouping = spjit::group_rows(matrix, tile.m1, spjit::ReorderAlgorithm::none);
  spjit::Problem problem;
  problem.n = n;
  problem.b.leading_dimension = ldb;
  return {std::make_shared<HostArtifact>(spjit::make_unrolled_artifact(
              spjit::build_plan(matrix, grouping, 30), tile, problem, HostIsa::avx2)),
          tile};
}

/// Two short rounds.
TuningOptions short_race() {
  TuningOptions options;
  options.min_sample_us = 1;
  options.min_rounds = options.max_rounds = 2;
  options.drops = false;
  return options;
}

class HostTimer : public testing::Test {
 protected:
  void SetUp() override {
    if (!spjit::Target(HostIsa::avx2).runs_here()) GTEST_SKIP() << "this CPU has no AVX2";
  }
};

TEST_F(HostTimer, TimesEveryCandidateInItsPlace) {
  const std::vector<HostTuningCandidate> candidates = {contestant_of(host_tile(4)),
                                                       contestant_of(host_tile(10))};

  const auto results = spjit::time_host_kernels(candidates, short_race(), {.between_bytes = 0});

  ASSERT_EQ(results.size(), 2U);
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].outcome, TuningOutcome::finished);
    EXPECT_EQ(results[i].timing.name, to_string(candidates[i].tile));
    EXPECT_GT(results[i].timing.median_us, 0);
    EXPECT_EQ(results[i].timing.samples, 2);
  }
}

TEST_F(HostTimer, AnArtifactThatDoesNotLoadHasFailedAndTheOthersKeepTheirPlaces) {
  HostArtifact damaged = *contestant_of(host_tile(4)).artifact;
  damaged.program[1] = 999;
  const std::vector<HostTuningCandidate> candidates = {
      {std::make_shared<HostArtifact>(damaged), host_tile(4)}, contestant_of(host_tile(10))};

  const auto results = spjit::time_host_kernels(candidates, short_race(), {.between_bytes = 0});

  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].outcome, TuningOutcome::failed);
  EXPECT_THAT(results[0].failure, testing::HasSubstr("version 999"));
  EXPECT_EQ(results[0].timing.samples, 0);
  EXPECT_EQ(results[1].timing.name, to_string(host_tile(10)));
  EXPECT_GT(results[1].timing.median_us, 0);
}

TEST_F(HostTimer, OneArtifactServesSeveralLoopOrdersAndWindows) {
  HostTuningCandidate whole = contestant_of(host_tile(4), 64);
  HostTuningCandidate walked = whole;
  walked.tile.panel_group = 3;
  HostTuningCandidate windowed = whole;
  windowed.columns = 16;
  const std::vector<HostTuningCandidate> candidates = {whole, walked, windowed};

  const auto results = spjit::time_host_kernels(candidates, short_race(), {.between_bytes = 0});

  for (const auto& result : results) EXPECT_EQ(result.timing.samples, 2);
}

TEST_F(HostTimer, ReadsBInPlaceAtTheLeadingDimensionItIsGiven) {
  HostTile tile = host_tile(4);
  tile.pack_b = false;
  const std::vector<HostTuningCandidate> candidates = {contestant_of(tile, 32, 40)};

  const auto results =
      spjit::time_host_kernels(candidates, short_race(), {.ldb = 40, .between_bytes = 0});

  EXPECT_EQ(results.at(0).failure, "");
  EXPECT_EQ(results.at(0).timing.samples, 2);
}

TEST_F(HostTimer, RunsOnThePoolItIsGiven) {
  const auto pool = std::make_shared<spjit::WorkerPool>(2);
  const std::vector<HostTuningCandidate> candidates = {contestant_of(host_tile(4))};

  const auto results =
      spjit::time_host_kernels(candidates, short_race(), {.pool = pool, .between_bytes = 0});

  EXPECT_GT(results.at(0).timing.median_us, 0);
}

TEST_F(HostTimer, RefusesABThatCannotBeCounted) {
  const std::vector<HostTuningCandidate> candidates = {contestant_of(host_tile(4))};
  constexpr std::int64_t k_ldb = std::int64_t{1} << 61;

  EXPECT_THROW(static_cast<void>(spjit::time_host_kernels(candidates, short_race(),
                                                          {.ldb = k_ldb, .between_bytes = 0})),
               spjit::InvalidArgument);
}

TEST_F(HostTimer, NothingToTimeIsFine) {
  EXPECT_TRUE(spjit::time_host_kernels({}, short_race(), {.between_bytes = 0}).empty());
}

}  // namespace

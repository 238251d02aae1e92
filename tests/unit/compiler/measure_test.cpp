#include "compiler/measure.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::HostArtifact;
using spjit::HostIsa;
using spjit::testing_support::random_matrix;

HostArtifact artifact_of(HostIsa isa, std::int64_t m1) {
  const auto matrix = random_matrix(20, 30, 0.7);
  spjit::HostTile tile;
  tile.m1 = m1;
  const auto grouping = spjit::group_rows(matrix, m1, spjit::ReorderAlgorithm::none);
  return spjit::make_unrolled_artifact(spjit::build_plan(matrix, grouping, 30), tile, isa, 32, 0);
}

class Measure : public testing::Test {
 protected:
  void SetUp() override {
    if (!spjit::Target(HostIsa::avx2).runs_here()) GTEST_SKIP() << "this CPU has no AVX2";
  }
};

TEST_F(Measure, TimesEveryArtifactInItsPlace) {
  const std::vector<HostArtifact> artifacts = {artifact_of(HostIsa::avx2, 4),
                                               artifact_of(HostIsa::avx2, 10)};

  const auto times = spjit::time_artifacts(artifacts, nullptr);

  ASSERT_EQ(times.size(), 2U);
  for (const auto& timed : times) {
    EXPECT_EQ(timed.failure, "");
    EXPECT_GT(timed.median_us, 0);
    EXPECT_GE(timed.median_us, timed.min_us);
    EXPECT_GE(timed.samples, 1);
  }
}

TEST_F(Measure, AnArtifactThatDoesNotLoadIsAResultWithItsFailure) {
  std::vector<HostArtifact> artifacts = {artifact_of(HostIsa::avx2, 4),
                                         artifact_of(HostIsa::avx2, 10)};
  artifacts[0].program[1] = 999;

  const auto times = spjit::time_artifacts(artifacts, nullptr);

  ASSERT_EQ(times.size(), 2U);
  EXPECT_NE(times[0].failure.find("version 999"), std::string::npos);
  EXPECT_EQ(times[0].samples, 0);
  EXPECT_EQ(times[1].failure, "");
  EXPECT_GT(times[1].median_us, 0);
}

TEST_F(Measure, RunsOnThePoolItIsGiven) {
  const auto pool = std::make_shared<spjit::ThreadPool>(2);

  const auto times = spjit::time_artifacts({artifact_of(HostIsa::avx2, 4)}, pool);

  EXPECT_GT(times.at(0).median_us, 0);
}

TEST_F(Measure, NothingToTimeIsFine) { EXPECT_TRUE(spjit::time_artifacts({}, nullptr).empty()); }

}  // namespace

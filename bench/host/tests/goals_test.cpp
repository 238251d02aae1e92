#include "bench/host/goals.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/host/report.hpp"

namespace {

using spjit::bench::CaseResult;
using spjit::bench::evaluate_goals;
using spjit::bench::GoalResult;
using testing::HasSubstr;

/// A case of one thread whose kernel takes `median_us`, on a machine of 100 GFLOP/s a core.
CaseResult made_up(std::int64_t rows, std::int64_t cols, double sparsity, double median_us) {
  CaseResult result;
  result.matrix = "made-up";
  result.source = "dlmc";
  result.rows = rows;
  result.cols = cols;
  result.nnz = std::llround(static_cast<double>(rows * cols) * (1 - sparsity));
  result.n = 128;
  result.kind = "unrolled";
  result.peak_gflops = 100;
  result.kernel.median_us = median_us;
  return result;
}

/// The median that makes `share` of the peak of one core.
double median_for(const CaseResult& result, double share) {
  return 2.0 * static_cast<double>(result.nnz * result.n) / (share * result.peak_gflops * 1e3);
}

GoalResult find(const std::vector<CaseResult>& cases, const std::string& text) {
  for (const GoalResult& goal : evaluate_goals(cases)) {
    if (goal.goal.find(text) != std::string::npos) return goal;
  }
  ADD_FAILURE() << "no goal says '" << text << "'";
  return {};
}

TEST(HostGoals, WithoutCasesNothingIsMet) {
  const auto goals = evaluate_goals({});

  EXPECT_GE(goals.size(), 20);
  for (const GoalResult& goal : goals) {
    EXPECT_EQ(goal.state, GoalResult::State::no_data) << goal.goal;
  }
}

TEST(HostGoals, PeakGoalTakesTheWorstCaseThatFits) {
  CaseResult good = made_up(512, 512, 0.9, 1);
  good.kernel.median_us = median_for(good, 0.97);
  CaseResult bad = good;
  bad.matrix = "slow one";
  bad.kernel.median_us = median_for(bad, 0.5);
  CaseResult other_n = bad;
  other_n.n = 512;

  const GoalResult met = find({good, other_n}, "512 x 512, 90 %");
  const GoalResult missed = find({good, bad}, "512 x 512, 90 %");

  EXPECT_EQ(met.state, GoalResult::State::met);
  EXPECT_NEAR(met.measured, 97, 1e-9);
  EXPECT_EQ(missed.state, GoalResult::State::not_met);
  EXPECT_NEAR(missed.measured, 50, 1e-9);
  EXPECT_THAT(missed.where, HasSubstr("slow one"));
}

TEST(HostGoals, SpeedupOverDenseIsAGeometricMean) {
  CaseResult four = made_up(512, 512, 0.9, 10);
  four.dense.emplace().median_us = 40;
  CaseResult sixteen = made_up(256, 64, 0.9, 10);
  sixteen.dense.emplace().median_us = 160;
  const CaseResult without_dense = made_up(64, 64, 0.9, 10);

  const GoalResult goal = find({four, sixteen, without_dense}, "8 x OpenBLAS");

  EXPECT_NEAR(goal.measured, 8, 1e-9);
  EXPECT_EQ(goal.where, "2 cases");
}

TEST(HostGoals, TwoThreadsAreComparedWithTheSameCaseOnOne) {
  const CaseResult one = made_up(1024, 512, 0.8, 100);
  CaseResult two = one;
  two.threads = 2;
  two.kernel.median_us = 50;
  CaseResult small = made_up(64, 64, 0.5, 10);
  small.threads = 2;

  const GoalResult goal = find({one, two, small}, "two threads");

  EXPECT_DOUBLE_EQ(goal.measured, 2);
  EXPECT_EQ(goal.state, GoalResult::State::met);
}

TEST(HostGoals, CompileGoalsAreUpperBounds) {
  CaseResult quick = made_up(512, 512, 0.9, 10);
  quick.cold_compile_ms = 20;
  quick.encode_ms = 1;
  quick.code_bytes = 1;
  quick.warm_hit_ms = 0.5;
  CaseResult slow = quick;
  slow.cold_compile_ms = 60;

  EXPECT_EQ(find({quick}, "cold compile").state, GoalResult::State::met);
  EXPECT_EQ(find({quick}, "warm cache hit of 512").state, GoalResult::State::met);
  EXPECT_NEAR(find({quick}, "encoding").measured, 1e5 / 26214, 0.01);
  EXPECT_EQ(find({quick, slow}, "cold compile").state, GoalResult::State::not_met);
  EXPECT_DOUBLE_EQ(find({quick, slow}, "cold compile").measured, 60);
}

TEST(HostReport, RowsAndJsonCarryTheFigures) {
  CaseResult result = made_up(512, 512, 0.9, 10);
  result.csr.median_us = 25;
  const std::vector<CaseResult> cases = {result};
  const auto goals = evaluate_goals(cases);

  const auto json = spjit::bench::to_json({}, cases, goals);
  const std::string row = spjit::bench::table_row(result);

  EXPECT_THAT(row, HasSubstr("512x512"));
  EXPECT_THAT(row, HasSubstr("2.50"));  // x csr
  EXPECT_EQ(json["schema"], "spjit-host-bench-1");
  EXPECT_EQ(json["cases"][0]["timings"].size(), 2);
  EXPECT_EQ(json["cases"][0]["timings"][1]["library"], "csr");
  EXPECT_EQ(json["goals"].size(), goals.size());
}

TEST(HostReport, FileNamesComeFromTheCpu) {
  EXPECT_EQ(spjit::bench::file_name_of("AMD EPYC 9354 32-Core"), "amd-epyc-9354-32-core");
  EXPECT_EQ(spjit::bench::file_name_of("Intel(R) Xeon(R)"), "intel-r-xeon-r");
  EXPECT_EQ(spjit::bench::file_name_of(" "), "unknown");
}

}  // namespace

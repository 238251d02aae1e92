#include "bench/search_cost/cost_row.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

using spjit::CsrMatrix;
using spjit::bench::cost_line;
using spjit::bench::cost_ways;
using spjit::bench::CostCase;
using spjit::bench::CostProgress;
using spjit::bench::CostRow;
using spjit::bench::CostRun;
using spjit::bench::CostWay;
using spjit::bench::estimate_seconds;
using spjit::bench::make_cost_row;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr double k_limit_s = 60;

CostCase small_case() {
  CsrMatrix matrix;
  matrix.rows = 2;
  matrix.cols = 3;
  matrix.row_ptrs = {0, 1, 2};
  matrix.col_idxs = {0, 2};
  matrix.values = {1, 2};
  return {"layer", matrix, 512};
}

CostRun run_that_took(double seconds) {
  CostRun run;
  run.child.report.seconds = seconds;
  run.child.cpu_seconds = seconds;
  run.child.peak_rss_bytes = static_cast<std::int64_t>(seconds) << 20;
  run.progress.candidates = run.progress.compiled = 30;
  return run;
}

/// Killed after 12 of 30 candidates, the first begun at 2 s and the 12th done at 50 s.
CostRun killed() {
  CostRun run;
  run.child.failure = "over 60 s";
  run.child.killed = true;
  run.progress = {30, 12, 0, 2, 50, ""};
  return run;
}

TEST(CostRow, HasTheMedianRun) {
  const CostCase item = small_case();
  const std::vector<CostRun> runs = {run_that_took(9), run_that_took(4), run_that_took(5)};

  const CostRow row = make_cost_row({item, "host-avx512", CostWay::proxies}, runs, k_limit_s);

  EXPECT_EQ(row.way, "proxies");
  EXPECT_EQ(row.nnz, 2);
  EXPECT_EQ(row.seconds, 5);
  EXPECT_EQ(row.peak_mib, 5);
  EXPECT_EQ(row.runs, 3);
  EXPECT_EQ(row.candidates, 30);
  EXPECT_FALSE(row.compiled);
  EXPECT_FALSE(row.killed);
  EXPECT_FALSE(row.estimated_seconds);
}

TEST(CostRow, OfAKilledFullWayHasTheLimitAndAnEstimateBesideIt) {
  const CostCase item = small_case();
  const std::vector<CostRun> runs = {killed()};

  const CostRow row =
      make_cost_row({item, "sm_90:h100", CostWay::full_undivided, true, "no GPU"}, runs, k_limit_s);

  EXPECT_TRUE(row.killed);
  EXPECT_EQ(row.seconds, 60);
  EXPECT_EQ(row.compiled, 12);
  EXPECT_EQ(row.estimated_seconds, 2 + 30 * 4.0);  // 48 s for 12
  EXPECT_EQ(row.failure, "");
  EXPECT_EQ(row.note, "no GPU; killed: over 60 s");
  EXPECT_THAT(cost_line(row), HasSubstr(">=60 "));
}

TEST(CostRow, NoEstimateIsBelowWhatWasMeasured) {
  const CostCase item = small_case();
  std::vector<CostRun> runs = {killed()};
  runs[0].progress.compiled = 29;  // 30 of them at this pace: 52 s

  const CostRow row = make_cost_row({item, "sm_90", CostWay::full_units}, runs, k_limit_s);

  EXPECT_EQ(row.estimated_seconds, 60);
}

TEST(CostRow, OfAKilledSearchByProxiesHasNoEstimate) {
  const CostCase item = small_case();
  const std::vector<CostRun> runs = {killed()};

  const CostRow row = make_cost_row({item, "sm_90:h100", CostWay::proxies}, runs, k_limit_s);

  EXPECT_TRUE(row.killed);
  EXPECT_FALSE(row.estimated_seconds);
  EXPECT_FALSE(row.compiled);
}

TEST(CostRow, OfAKilledWayThatToldNothingHasNoCounts) {
  const CostCase item = small_case();
  std::vector<CostRun> runs = {killed()};
  runs[0].progress = {};

  const CostRow row =
      make_cost_row({item, "host-avx512", CostWay::full_undivided}, runs, k_limit_s);

  EXPECT_TRUE(row.killed);
  EXPECT_FALSE(row.candidates);
  EXPECT_FALSE(row.compiled);
  EXPECT_FALSE(row.estimated_seconds);
}

TEST(CostRow, OneRunThatFailedDecides) {
  const CostCase item = small_case();
  std::vector<CostRun> runs = {run_that_took(1), run_that_took(2)};
  runs[1].child.failure = "no candidate compiled";

  const CostRow row = make_cost_row({item, "sm_90", CostWay::full_units}, runs, k_limit_s);

  EXPECT_EQ(row.failure, "no candidate compiled");
  EXPECT_THAT(cost_line(row), HasSubstr("FAILED: no candidate compiled"));
}

TEST(CostRow, SaysHowManyCandidatesDidNotCompile) {
  const CostCase item = small_case();
  std::vector<CostRun> runs = {run_that_took(1)};
  runs[0].progress.failed = 2;
  runs[0].progress.note = "from PTX";

  const CostRow row = make_cost_row({item, "sm_90", CostWay::full_units}, runs, k_limit_s);

  EXPECT_EQ(row.note, "from PTX; 2 of 30 did not compile");
}

TEST(CostRow, IsWrittenWithNullsForWhatThereIsNot) {
  const CostCase item = small_case();
  std::vector<CostRun> runs = {run_that_took(2)};
  runs[0].progress = {};

  const nlohmann::json json =
      to_json(make_cost_row({item, "host-avx512", CostWay::instant}, runs, k_limit_s));

  EXPECT_EQ(json, nlohmann::json::parse(R"({
      "matrix": "layer", "rows": 2, "cols": 3, "nnz": 2, "n": 512, "target": "host-avx512",
      "way": "instant", "candidates": null, "compiled": null, "seconds": 2.0,
      "estimated_seconds": null, "cpu_seconds": 2.0, "peak_mib": 2.0, "killed": false,
      "compile_only": false, "runs": 1, "note": ""})"));
}

TEST(EstimateSeconds, NeedsOneThatIsDoneAndOneThatIsNot) {
  EXPECT_FALSE(estimate_seconds(CostProgress{30, 0, 0, 2, 0, ""}));
  EXPECT_FALSE(estimate_seconds(CostProgress{30, 30, 0, 2, 50, ""}));
  EXPECT_FALSE(estimate_seconds(CostProgress{0, 3, 0, 2, 50, ""}));
  EXPECT_EQ(estimate_seconds(CostProgress{30, 1, 0, 2, 5, ""}), 92);
}

TEST(CostWays, TheHostHasNoUnits) {
  std::vector<std::string> names;
  for (const CostWay way : cost_ways(false)) names.push_back(to_string(way));

  EXPECT_THAT(names, ElementsAre("full undivided", "proxies", "ranked", "instant"));
  EXPECT_EQ(cost_ways(true).size(), 6);
}

}  // namespace

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bench/search_cost/cost_cases.hpp"
#include "bench/search_cost/cuda_way.hpp"
#include "bench/search_cost/host_way.hpp"
#include "bench/search_cost/measure_way.hpp"
#include "spjit/error.hpp"
#include "spjit/generate.hpp"
#include "tests/support/long_tests.hpp"

namespace {

using spjit::Error;
using spjit::GenerateOptions;
using spjit::NotSupported;
using spjit::Target;
using namespace spjit::bench;
using testing::HasSubstr;

CostCase tiny_case(std::int64_t n, std::int64_t rows = 24) {
  GenerateOptions options;
  options.rows = rows;
  options.cols = 16;
  options.sparsity = 0.75;
  return {"tiny", spjit::generate_matrix(options), n};
}

CostSettings patient() {
  CostSettings settings;
  settings.limit_s = 300;
  settings.repeats = 1;
  return settings;
}

TEST(MeasureWay, AKillKeepsWhatWasReportedBefore) {
  CostSettings settings;
  settings.limit_s = 2;
  const CostCase item = tiny_case(32);

  const CostRow row = measure_way({item, "made-up", CostWay::full_units, true, "note"}, settings,
                                  [](CostReporter& reporter) -> WorkReport {
                                    reporter.set_candidates(10);
                                    reporter.begin();
                                    reporter.done(false);
                                    reporter.done(true);
                                    while (true) reporter.say("on its way");
                                  });

  EXPECT_TRUE(row.killed);
  EXPECT_EQ(row.seconds, 2);
  EXPECT_EQ(row.candidates, 10);
  EXPECT_EQ(row.compiled, 2);
  EXPECT_TRUE(row.estimated_seconds);
  EXPECT_THAT(row.note, HasSubstr("1 of 2 did not compile"));
}

TEST(MeasureWay, RepeatsWhatTakesLittleTime) {
  CostSettings settings;
  settings.repeats = 3;
  const CostCase item = tiny_case(32);

  const CostRow row = measure_way({item, "made-up", CostWay::instant}, settings,
                                  [](CostReporter&) { return WorkReport{}; });

  EXPECT_EQ(row.runs, 3);
  EXPECT_GT(row.seconds, 0);
}

TEST(MeasureWay, AnErrorIsTheRowsFailure) {
  const CostCase item = tiny_case(32);

  const CostRow row =
      measure_way({item, "made-up", CostWay::instant}, CostSettings(),
                  [](CostReporter&) -> WorkReport { throw Error("nothing to compile with"); });

  EXPECT_EQ(row.failure, "nothing to compile with");
  EXPECT_FALSE(row.killed);
}

TEST(HostWays, AllEndWithAKernel) {
  if (!Target().runs_here()) GTEST_SKIP() << "this CPU runs no kernel of its own target";
  const CostCase item = tiny_case(32);
  for (const CostWay way : cost_ways(false)) {
    CostReporter reporter;

    const WorkReport report = run_host_way(item, Target(), way, patient(), reporter);

    EXPECT_GT(report.code_bytes, 0) << to_string(way);
    EXPECT_GE(reporter.progress().candidates, 1) << to_string(way);
  }
}

TEST(HostWays, RankedTimesFewerTilesThanFull) {
  const CostCase item = tiny_case(512);
  CostReporter full;
  CostReporter ranked;

  static_cast<void>(run_host_way(item, Target(), CostWay::full_undivided, patient(), full));
  static_cast<void>(run_host_way(item, Target(), CostWay::ranked, patient(), ranked));

  EXPECT_EQ(ranked.progress().candidates, 10);
  EXPECT_GT(full.progress().candidates, 10);
}

TEST(HostWays, ThereAreNoUnits) {
  CostReporter reporter;

  EXPECT_THROW(static_cast<void>(
                   run_host_way(tiny_case(32), Target(), CostWay::full_units, patient(), reporter)),
               spjit::InvalidArgument);
}

/// Of sm_90 with the compilers of this machine and no GPU, whatever it has; skips without them.
class CudaWays : public testing::Test {
 protected:
  void SetUp() override {
    try {
      target_ = examine_cuda_target("sm_90");
    } catch (const NotSupported& error) {
      GTEST_SKIP() << error.what();
    }
    target_.ordinal.reset();
    target_.problem = "no driver";
  }

  CudaCostTarget target_;
};

TEST_F(CudaWays, FullOnesCompileEverySurvivorAndOthersNoMore) {
  const CostCase item = spjit::testing_support::long_tests() ? tiny_case(64) : tiny_case(32, 8);
  for (const CostWay way : cost_ways(true)) {
    CostReporter reporter;

    const WorkReport report = run_cuda_way(item, target_, way, patient(), reporter);

    const CostProgress progress = reporter.progress();
    EXPECT_EQ(progress.failed, 0) << to_string(way);
    if (is_full(way)) {
      EXPECT_EQ(progress.compiled, progress.candidates) << to_string(way);
    } else {
      EXPECT_LE(progress.compiled, progress.candidates) << to_string(way);
      EXPECT_GT(report.code_bytes, 0) << to_string(way);
    }
  }
}

TEST_F(CudaWays, RowsSayThatNothingWasTimed) {
  EXPECT_EQ(note_of(target_, CostWay::full_undivided),
            "compile part alone, no GPU; CUDA C++ undivided through NVRTC");
  target_.ordinal = 0;
  target_.product = "NVIDIA H200";
  EXPECT_EQ(note_of(target_, CostWay::ranked),
            "timed on NVIDIA H200; PTX in units through nvJitLink");
  EXPECT_EQ(note_of(target_, CostWay::instant), "PTX in units through nvJitLink");
  target_.rehearsal = true;
  EXPECT_EQ(note_of(target_, CostWay::ranked), "rehearsed on NVIDIA H200, in no real time");
}

TEST(CostCases, WithoutTheFolderMatricesOfTheSameShapesAreGenerated) {
  const std::vector<std::int64_t> ns = {128, 512};

  const std::vector<CostCase> cases =
      load_cost_cases("/no/such/folder", default_cost_matrices(), ns);

  ASSERT_EQ(cases.size(), 6);
  EXPECT_EQ(cases[0].name, "uniform/128x1152/0.95");
  EXPECT_EQ(cases[0].matrix.nnz(), 7373);
  EXPECT_EQ(cases[5].n, 512);
}

TEST(CostCases, AnUnknownNameIsRefused) {
  const std::vector<std::string> names = {"layer7"};
  const std::vector<std::int64_t> ns = {128};

  EXPECT_THROW(static_cast<void>(load_cost_cases("/no/such/folder", names, ns)),
               spjit::InvalidArgument);
}

}  // namespace

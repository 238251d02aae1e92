#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/search_cost/way.hpp"
#include "runtime/cuda/cuda_libraries.hpp"
#include "spjit/error.hpp"
#include "spjit/generate.hpp"
#include "tests/support/long_tests.hpp"

namespace {

using spjit::Problem;
using spjit::Target;
using namespace spjit::bench;

Problem tiny_problem(std::int64_t n, std::int64_t rows = 24) {
  spjit::GenerateOptions options;
  options.rows = rows;
  options.cols = 16;
  options.sparsity = 0.75;
  Problem problem;
  problem.a = spjit::generate_matrix(options);
  problem.n = n;
  return problem;
}

constexpr CostSettings k_patient{.limit_s = 300};

TEST(CostReporter, TellsInLinesOfJson) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const out = ::open_memstream(&text, &size);
  CostReporter reporter(out);

  reporter.set_candidates(10);
  reporter.begin();
  reporter.done(false);
  reporter.done(true);
  reporter.say("a \"note\"");

  std::fclose(out);
  std::vector<nlohmann::json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
  std::free(text);
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0].at("candidates"), 10);
  EXPECT_GE(lines[2].at("done_s").get<double>(), lines[1].at("begun_s").get<double>());
  EXPECT_EQ(lines[2].at("failed"), false);
  EXPECT_EQ(lines[3].at("failed"), true);
  EXPECT_EQ(lines[4].at("note"), "a \"note\"");
  EXPECT_EQ(reporter.compiled(), 2);
  EXPECT_EQ(reporter.failed(), 1);
}

TEST(CostWays, TheHostHasNoUnits) {
  std::vector<std::string> names;
  for (const CostWay way : cost_ways(false)) names.push_back(to_string(way));

  EXPECT_EQ(names, (std::vector<std::string>{"full undivided", "proxies", "ranked", "instant"}));
  EXPECT_EQ(cost_ways(true).size(), 6U);
  for (const CostWay way : cost_ways(true)) EXPECT_EQ(way_named(to_string(way)), way);
  EXPECT_THROW(static_cast<void>(way_named("all")), spjit::InvalidArgument);
}

TEST(HostWays, AllEndWithAKernel) {
  if (!Target().runs_here()) GTEST_SKIP() << "this CPU runs no kernel of its own target";
  const Problem problem = tiny_problem(32);
  for (const CostWay way : cost_ways(false)) {
    CostReporter reporter;

    EXPECT_GT(run_host_way(problem, Target(), way, k_patient, reporter), 0) << to_string(way);
    EXPECT_GE(reporter.candidates(), 1) << to_string(way);
  }
}

TEST(HostWays, RankedTimesFewerTilesThanFull) {
  const Problem problem = tiny_problem(512);
  CostReporter full;
  CostReporter ranked;

  run_host_way(problem, Target(), CostWay::full_undivided, k_patient, full);
  run_host_way(problem, Target(), CostWay::ranked, k_patient, ranked);

  EXPECT_EQ(ranked.candidates(), 10);
  EXPECT_GT(full.candidates(), 10);
}

TEST(HostWays, ThereAreNoUnits) {
  CostReporter reporter;

  EXPECT_THROW(run_host_way(tiny_problem(32), Target(), CostWay::full_units, k_patient, reporter),
               spjit::InvalidArgument);
}

/// Of sm_90 with the compilers of this machine and no GPU, whatever it has; skips without them.
TEST(CudaWays, FullOnesCompileEverySurvivorAndOthersNoMore) {
  spjit::CudaToolchainNeeds needs;
  needs.arch = 90;
  needs.nvrtc = needs.nvjitlink = true;
  try {
    static_cast<void>(load_cuda_toolchain(needs, spjit::found_cuda_libraries()));
  } catch (const spjit::NotSupported& error) {
    GTEST_SKIP() << error.what();
  }
  const Problem problem =
      spjit::testing_support::long_tests() ? tiny_problem(64) : tiny_problem(32, 8);
  for (const CostWay way : cost_ways(true)) {
    CostReporter reporter;

    const std::int64_t bytes = run_cuda_way(problem, {"sm_90"}, way, k_patient, reporter);

    EXPECT_EQ(reporter.failed(), 0) << to_string(way);
    if (is_full(way)) {
      EXPECT_EQ(reporter.compiled(), reporter.candidates()) << to_string(way);
    } else {
      EXPECT_LE(reporter.compiled(), reporter.candidates()) << to_string(way);
      EXPECT_GT(bytes, 0) << to_string(way);
    }
  }
}

}  // namespace

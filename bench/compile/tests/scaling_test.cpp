#include "bench/compile/scaling.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <vector>

namespace {

using spjit::bench::ChildRun;
using spjit::bench::scaling_line;
using spjit::bench::scaling_sizes;
using spjit::bench::ScalingOptions;
using spjit::bench::ScalingRow;
using spjit::bench::ScalingSize;
using testing::ElementsAre;
using testing::HasSubstr;

ChildRun child_took(double seconds) {
  ChildRun run;
  run.report.seconds = seconds;
  run.report.code_bytes = 2048;
  run.peak_rss_bytes = std::int64_t{32} << 20;
  run.cpu_seconds = 2 * seconds;
  return run;
}

ChildRun child_failed(const char* why) {
  ChildRun run;
  run.failure = why;
  return run;
}

TEST(ScalingSizes, GoFromOneThousandToOneMillion) {
  const std::vector<ScalingSize> sizes = scaling_sizes();

  EXPECT_EQ(sizes.front().make().nnz(), 1024);
  EXPECT_EQ(sizes.back().make().nnz(), 999'922);
}

TEST(ScalingSizes, AreNamedByThousandsOfNonzeros) {
  const std::vector<std::int64_t> thousands = {26, 708, 5};

  const std::vector<ScalingSize> sizes = scaling_sizes(thousands);

  ASSERT_EQ(sizes.size(), 2);
  EXPECT_EQ(sizes[0].shape(), "512x512");
  EXPECT_EQ(sizes[1].make().nnz(), 707'789);
}

TEST(ScalingOptions, AreReadFromTheCommandLine) {
  ScalingOptions options;
  CLI::App app;
  options.add_to(app, {"fast", "slow"});

  app.parse("--sizes 26,708 --methods slow --limit 1.5");

  EXPECT_THAT(options.sizes, ElementsAre(26, 708));
  EXPECT_EQ(options.limit_s, 1.5);
  EXPECT_TRUE(options.wants("slow"));
  EXPECT_FALSE(options.wants("fast"));
}

TEST(ScalingOptions, WantAllMethodsUnlessSomeAreNamedAndRefuseUnknownOnes) {
  ScalingOptions options;
  CLI::App app;
  options.add_to(app, {"fast", "slow"});

  EXPECT_TRUE(options.wants("fast"));
  EXPECT_THROW(app.parse("--methods quick"), CLI::ValidationError);
}

TEST(ScalingRow, IsWrittenWithEveryRun) {
  ScalingRow row;
  row.nonzeros = 1024;
  row.shape = "128x80";
  row.method = "host avx512";
  row.tile = "14x2";
  row.runs = {child_took(0.5), child_failed("over 120 s")};

  const nlohmann::json json = to_json(row);

  EXPECT_EQ(json, nlohmann::json::parse(R"({
      "nonzeros": 1024, "shape": "128x80", "method": "host avx512", "tile": "14x2",
      "runs": [{"seconds": 0.5, "cpu_seconds": 1.0, "peak_rss_bytes": 33554432,
                "code_bytes": 2048}, {"failure": "over 120 s"}]})"));
}

TEST(ScalingRow, IsPrintedByItsMedianOrItsFailure) {
  ScalingRow row;
  row.runs = {child_took(3), child_took(1), child_took(2)};
  ScalingRow none;
  none.runs = {child_failed("over 120 s")};

  const std::string line = scaling_line(row);

  EXPECT_THAT(line, HasSubstr("        2         1         3 "));
  EXPECT_THAT(scaling_line(none), HasSubstr("over 120 s\n"));
}

}  // namespace

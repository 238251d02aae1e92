#include "bench/search_cost/child_run.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <vector>

#include "bench/search_cost/shared_page.hpp"
#include "spjit/error.hpp"

namespace {

using spjit::Error;
using spjit::bench::ChildRun;
using spjit::bench::run_in_child;
using spjit::bench::SharedPage;
using spjit::bench::WorkReport;

TEST(ChildRun, BringsBackWhatTheWorkReports) {
  const ChildRun run = run_in_child([] { return WorkReport{1.5, 4096}; }, 60);

  EXPECT_EQ(run.failure, "");
  EXPECT_FALSE(run.killed);
  EXPECT_EQ(run.report.seconds, 1.5);
  EXPECT_EQ(run.report.code_bytes, 4096);
}

TEST(ChildRun, PeakMemoryIsThatOfTheWork) {
  const ChildRun small = run_in_child([] { return WorkReport{}; }, 60);

  const ChildRun large = run_in_child(
      [] {
        const std::vector<char> touched(std::size_t{64} << 20, 'x');
        return WorkReport{0, touched[12345]};
      },
      60);

  EXPECT_GE(large.peak_rss_bytes - small.peak_rss_bytes, std::int64_t{60} << 20);
}

TEST(ChildRun, AnErrorIsItsFirstLine) {
  const ChildRun run =
      run_in_child([]() -> WorkReport { throw std::runtime_error("no room\nwith a log"); }, 60);

  EXPECT_EQ(run.failure, "no room");
  EXPECT_FALSE(run.killed);
}

TEST(ChildRun, IsKilledAtItsLimitAndLeavesWhatItShared) {
  const SharedPage<std::atomic<int>> done;

  const ChildRun run = run_in_child(
      [&]() -> WorkReport {
        *done = 7;
        while (true) ::pause();
      },
      2);

  EXPECT_TRUE(run.killed);
  EXPECT_EQ(run.failure, "over 2 s");
  EXPECT_EQ(*done, 7);
}

TEST(ChildRun, EndingByItselfIsAFailureThatWasNoKill) {
  const ChildRun run = run_in_child([]() -> WorkReport { ::_exit(3); }, 60);

  EXPECT_FALSE(run.killed);
  EXPECT_EQ(run.failure, "the process ended with status 768");
}

}  // namespace

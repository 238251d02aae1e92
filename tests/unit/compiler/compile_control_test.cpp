// Stopping a compilation: by token, by deadline, by callback; what it leaves behind.

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "kernels/cuda/unrolled/cuda_emitter.hpp"
#include "kernels/cuda/unrolled/ptx_emitter.hpp"
#include "kernels/host/unrolled/host_emitter.hpp"
#include "kernels/host/unrolled/llvm_emitter.hpp"
#include "plan/kernel_plan.hpp"
#include "reorder/row_grouping.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

Cancellation stopped() {
  std::stop_source stop;
  stop.request_stop();
  Cancellation cancel;
  cancel.stop = stop.get_token();
  return cancel;
}

CompileControl late() {
  CompileControl control;
  control.deadline = std::chrono::steady_clock::now() - std::chrono::milliseconds(1);
  return control;
}

std::set<std::string> stages_of(const Compiler& compiler, const CsrMatrix& matrix) {
  std::set<std::string> stages;
  CompileControl control;
  control.progress = [&](const SearchProgress& progress) { stages.emplace(progress.stage); };
  static_cast<void>(compiler.compile(small_problem(matrix), control));
  return stages;
}

TEST(CompileControl, TellsTheStages) {
  const TemporaryDirectory directory;
  const CsrMatrix matrix = random_matrix(40, 50, 0.8);
  const Compiler compiler(small_options(), cached_in(directory.path()));

  EXPECT_EQ(stages_of(compiler, matrix),
            (std::set<std::string>{"looking up", "grouping", "emitting", "publishing"}));
  EXPECT_EQ(stages_of(compiler, matrix), (std::set<std::string>{"looking up"}));
}

TEST(CompileControl, AStopAtAnyStageEndsItAndLeavesNothingBehind) {
  const CsrMatrix matrix = random_matrix(40, 50, 0.8);
  for (const std::string stage : {"looking up", "grouping", "emitting", "publishing"}) {
    SCOPED_TRACE(stage);
    const TemporaryDirectory directory;
    const Compiler compiler(small_options(), cached_in(directory.path()));
    std::stop_source stop;
    CompileControl control = at_stage(stage, [&] { stop.request_stop(); });
    control.stop = stop.get_token();

    EXPECT_TRUE(
        throws<Cancelled>([&] { return compiler.compile(small_problem(matrix), control); }));

    EXPECT_EQ(left_in(directory.path()), std::vector<std::string>());
    EXPECT_FALSE(compiler.compile(small_problem(matrix)).info().from_cache);
  }
}

TEST(CompileControl, AStopEndsASearchToo) {
  const CsrMatrix matrix = random_matrix(200, 200, 0.5);
  for (const std::string stage : {"proxies", "kernels"}) {
    SCOPED_TRACE(stage);
    const TemporaryDirectory directory;
    CompileOptions options = small_options();
    const std::int64_t n = stage == "proxies" ? 512 : 8;  // proxies only where they pay
    options.policy.search = SearchMode::ranked;
    options.policy.top_k = 6;
    const Compiler compiler(options, cached_in(directory.path()));
    std::stop_source stop;
    CompileControl control = at_stage(stage, [&] { stop.request_stop(); });
    control.stop = stop.get_token();

    EXPECT_TRUE(
        throws<Cancelled>([&] { return compiler.compile(problem_of(matrix, n), control); }));

    EXPECT_EQ(left_in(directory.path()), std::vector<std::string>());
  }
}

TEST(CompileControl, ADeadlineThatHasPassedEndsItAtOnce) {
  const TemporaryDirectory directory;
  const CsrMatrix matrix = random_matrix(40, 50, 0.8);
  const Compiler compiler(small_options(), cached_in(directory.path()));
  try {
    static_cast<void>(compiler.compile(small_problem(matrix), late()));
    ADD_FAILURE() << "compiled";
  } catch (const DeadlineExceeded& error) {
    EXPECT_NE(std::string(error.what()).find("deadline"), std::string::npos);
  }

  EXPECT_EQ(left_in(directory.path()), std::vector<std::string>());
}

TEST(CompileControl, ADeadlineThatIsFarAwayChangesNothing) {
  const CsrMatrix matrix = random_matrix(40, 50, 0.8);
  CompileControl control;
  control.deadline = std::chrono::steady_clock::time_point::max();

  EXPECT_TRUE(is_kernel_of(
      Compiler(small_options(), uncached()).compile(small_problem(matrix), control), matrix));
}

TEST(CompileControl, ASearchTellsOfItsSamplesAndOfItsBestTile) {
  CompileOptions options = small_options();
  options.policy.family = "unrolled";  // of no other family would the fastest kernel have a tile
  options.policy.search = SearchMode::exhaustive;
  options.policy.search_budget_ms = 2'000;
  int samples = 0;
  std::string best;
  CompileControl control;
  control.progress = [&](const SearchProgress& progress) {
    if (progress.stage != "kernels" || progress.best.empty()) return;
    ++samples;
    best = progress.best;
    EXPECT_GT(progress.best_us, 0);
    EXPECT_LE(progress.done, progress.total);
  };

  const Kernel kernel =
      Compiler(options, uncached()).compile(small_problem(random_matrix(12, 16, 0.7)), control);

  EXPECT_GT(samples, 1);
  EXPECT_EQ(best, kernel.info().tile);
}

TEST(CompileControl, WhatACallbackThrowsComesOutAsItIs) {
  struct Enough {
    int reason = 0;
  };
  const TemporaryDirectory directory;
  const Compiler compiler(small_options(), cached_in(directory.path()));
  try {
    static_cast<void>(compiler.compile(small_problem(random_matrix(40, 50, 0.8)),
                                       at_stage("emitting", [] { throw Enough{3}; })));
    ADD_FAILURE() << "compiled";
  } catch (const Enough& enough) {
    EXPECT_EQ(enough.reason, 3);
  }

  EXPECT_EQ(left_in(directory.path()), std::vector<std::string>());
}

TEST(CompileControl, EndsACompilationForAGpuBeforeItNeedsALibrary) {
  CompileOptions options = small_options();
  options.target = Target::parse("sm_90:h200");
  options.resources.toolkit_paths = {"/nowhere"};
  const Compiler compiler(options, uncached());
  const CsrMatrix matrix = random_matrix(40, 50, 0.8);

  EXPECT_TRUE(
      throws<DeadlineExceeded>([&] { return compiler.compile(small_problem(matrix), late()); }));
  for (const std::string stage : {"looking up", "grouping", "emitting"}) {
    SCOPED_TRACE(stage);
    std::stop_source stop;
    CompileControl control = at_stage(stage, [&] { stop.request_stop(); });
    control.stop = stop.get_token();

    EXPECT_TRUE(
        throws<Cancelled>([&] { return compiler.compile(small_problem(matrix), control); }));
  }
  EXPECT_TRUE(throws<NotSupported>([&] { return compiler.compile(small_problem(matrix)); }));
}

TEST(Cancellation, SaysWhichOfTheTwoItWas) {
  Cancellation cancel = stopped();
  EXPECT_TRUE(cancel.reached());
  EXPECT_THROW(cancel.check(), Cancelled);

  cancel = {};
  EXPECT_FALSE(cancel.reached());
  EXPECT_NO_THROW(cancel.check());

  cancel.deadline = std::chrono::steady_clock::now();
  EXPECT_TRUE(cancel.reached());
  EXPECT_THROW(cancel.check(), DeadlineExceeded);
}

TEST(Cancellation, IsAskedByWhateverTakesLong) {
  const CsrMatrix matrix = random_matrix(40, 50, 0.8);
  const RowGrouping grouping = group_rows(matrix, 8, ReorderAlgorithm::similarity);
  const KernelPlan plan = build_plan(matrix, grouping, 50);
  HostTile tile;
  tile.m1 = 8;
  tile.nv = 2;
  CudaKernelSpec spec;
  spec.tile = {.m1 = 8, .n1 = 32};
  spec.n = spec.ldb = spec.ldc = 24;

  for (const auto algorithm : {ReorderAlgorithm::similarity, ReorderAlgorithm::balanced}) {
    EXPECT_TRUE(throws<Cancelled>([&] { return group_rows(matrix, 8, algorithm, stopped()); }));
  }
  EXPECT_TRUE(throws<Cancelled>([&] { return build_plan(matrix, grouping, 50, stopped()); }));
  EXPECT_TRUE(throws<Cancelled>(
      [&] { return emit_host(plan, tile, HostIsa::avx512, 2 * 16 * 4, stopped()); }));
  EXPECT_TRUE(throws<Cancelled>([&] { return emit_cuda(plan, spec, stopped()); }));
  EXPECT_TRUE(throws<Cancelled>([&] { return emit_ptx(plan, spec, 90, stopped()); }));
#ifdef SPJIT_HAVE_LLVM
  EXPECT_TRUE(throws<Cancelled>([&] { return emit_generic(plan, tile, 2 * 4 * 4, stopped()); }));
#endif
}

}  // namespace

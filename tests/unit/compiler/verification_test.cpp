#include "compiler/verification.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "artifact/families.hpp"
#include "kernels/cuda/unrolled/cuda_tile.hpp"
#include "kernels/host/object/csr_image.hpp"
#include "kernels/host/operands/workspace_pool.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

/// n, the leading dimensions of B and C, and that of the residual.
using Sizes = std::array<std::int64_t, 4>;

std::vector<Sizes> runs_of(const KernelInfo& info) {
  std::vector<Sizes> runs;
  for (const CheckRun& run : check_runs(info)) {
    EXPECT_EQ(run.b.layout, info.b_layout);
    EXPECT_EQ(run.c.layout, info.c_layout);
    runs.push_back({run.n, run.b.leading_dimension, run.c.leading_dimension, run.ldr});
  }
  return runs;
}

/// Of [20 x 30] for 8 columns, contiguous.
KernelInfo kernel_info(Layout layout = Layout::row_major) {
  KernelInfo info;
  info.rows = 20;
  info.cols = 30;
  info.n = 8;
  info.b_layout = info.c_layout = layout;
  info.ldb = layout == Layout::tokens_major ? 30 : 8;
  info.ldc = layout == Layout::tokens_major ? 20 : 8;
  return info;
}

TEST(CheckRuns, OfAHostKernelAreItsOwnAndOneWithWiderRowsAndTheResidualInC) {
  KernelInfo info = kernel_info();
  EXPECT_EQ(runs_of(info), (std::vector<Sizes>{{8, 8, 8, 14}, {8, 11, 11, 0}}));

  info.ldb = 16;
  info.ldc = 9;
  EXPECT_EQ(runs_of(info), (std::vector<Sizes>{{8, 16, 9, 15}, {8, 19, 12, 0}}));
}

TEST(CheckRuns, OfTokensHaveWiderTokensThatDoNotOverlap) {
  KernelInfo info = kernel_info(Layout::tokens_major);
  EXPECT_EQ(runs_of(info), (std::vector<Sizes>{{8, 30, 20, 26}, {8, 33, 23, 0}}));

  info.ldb = 4;
  EXPECT_EQ(runs_of(info), (std::vector<Sizes>{{8, 4, 20, 26}, {8, 33, 23, 0}}));
}

TEST(CheckRuns, OfPanelsAreOneUnlessTheResidualMayBeInC) {
  KernelInfo info = kernel_info(Layout::panel_major);
  EXPECT_EQ(runs_of(info).size(), 1U);

  info.epilogue.residual = true;
  ASSERT_EQ(runs_of(info).size(), 2U);
  EXPECT_GT(runs_of(info)[0][3], 0);
  EXPECT_EQ(runs_of(info)[1][3], 0);
}

TEST(CheckRuns, OfARunTimeNHaveAnotherN) {
  KernelInfo info = kernel_info();
  info.runtime_n = true;
  EXPECT_EQ(runs_of(info).back(), (Sizes{19, 22, 22, 0}));
  info.n = info.ldb = info.ldc = 19;
  EXPECT_EQ(runs_of(info).back(), (Sizes{21, 24, 24, 0}));

  info = kernel_info(Layout::tokens_major);
  info.runtime_n = true;
  EXPECT_EQ(runs_of(info).back(), (Sizes{19, 33, 23, 0}));
}

TEST(CheckRuns, OfACudaKernelAreWhatItTakes) {
  KernelInfo info = kernel_info();
  info.any_layout = false;
  info.most_leading_dimension = 0;
  info.ldc = 10;
  EXPECT_EQ(runs_of(info), (std::vector<Sizes>{{8, 8, 10, 10}}));

  info.runtime_n = true;
  info.most_leading_dimension = k_cuda_max_leading_dimension;
  EXPECT_EQ(runs_of(info), (std::vector<Sizes>{{8, 8, 10, 10}, {8, 11, 13, 0}, {19, 22, 22, 0}}));

  info.ldc = k_cuda_max_leading_dimension - 2;
  EXPECT_EQ(check_runs(info).size(), 1U);
}

/// A kernel that does `run` and writes nothing.
Verdict verdict_of_run(const std::function<void()>& run, const CompileContext& context = {}) {
  const CsrMatrix matrix{1, 1, {0, 1}, {0}, {1}};
  CompileOptions options;
  options.verify = VerifyMode::sampled;
  return verdict_of(
      {.matrix = matrix,
       .runs = {{.n = 4, .b = {.leading_dimension = 4}, .c = {.leading_dimension = 4}}},
       .run = [&](const Arguments&) { run(); }},
      "nothing", options, context);
}

TEST(Verdict, OfAKernelForWhichThereIsNoMemoryIsNoneAndSaysSo) {
  const Verdict without_operands = verdict_of_run([] { throw std::bad_alloc(); });
  const Verdict without_workspace = verdict_of_run([] { throw NoMemory("a run needs 9 GB"); });

  EXPECT_TRUE(without_operands.passed());
  EXPECT_EQ(without_operands.verification.mode, VerifyMode::none);
  EXPECT_THAT(without_operands.verification.reason, HasSubstr("not enough memory"));
  EXPECT_THAT(without_operands.note, HasSubstr("not checked: there is not enough memory"));
  EXPECT_TRUE(without_workspace.passed());
  EXPECT_EQ(without_workspace.verification.reason, "a run needs 9 GB");
  EXPECT_EQ(without_workspace.note, "not checked: a run needs 9 GB");
}

TEST(Verdict, OfAKernelThatRefusesItsOperandsIsAnError) {
  EXPECT_THROW(static_cast<void>(verdict_of_run([] { throw InvalidArgument("no B"); })),
               InvalidArgument);
  EXPECT_THROW(static_cast<void>(verdict_of_run([] { throw DeviceError("lost", 999); })),
               DeviceError);
}

TEST(Verdict, WaitsForItsTurnUntilTheDeadline) {
  Turns checks(1);
  bool ran = false;
  CompileContext context;
  context.check_turn = [&](const Cancellation& cancel) { return checks.take(cancel); };
  context.cancel.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  const Turns::Place other = checks.take({});

  EXPECT_THROW(static_cast<void>(verdict_of_run([&] { ran = true; }, context)), DeadlineExceeded);
  EXPECT_FALSE(ran);
}

TEST(Verdict, HasItsTurnWhileTheKernelRunsAndGivesItBack) {
  Turns checks(1);
  bool was_taken = false;
  CompileContext context;
  context.check_turn = [&](const Cancellation& cancel) { return checks.take(cancel); };

  static_cast<void>(verdict_of_run([&] { was_taken = checks.try_take() == nullptr; }, context));

  EXPECT_TRUE(was_taken);
  EXPECT_NE(checks.try_take(), nullptr);
}

TEST(Verdict, CountsTheTimeOfEveryCheckFailedOnesToo) {
  CompileContext context;
  context.check_ms = std::make_shared<double>(0);

  EXPECT_FALSE(verdict_of_run([] {}, context).passed());
  const double after_one = *context.check_ms;
  EXPECT_THROW(static_cast<void>(verdict_of_run([] { throw DeviceError("lost", 999); }, context)),
               DeviceError);

  EXPECT_GT(after_one, 0);
  EXPECT_GT(*context.check_ms, after_one);
}

TEST(Verdict, ThatIsNotPassedIsAnErrorWithWhatElseHappened) {
  EXPECT_NO_THROW(require_passed({}, "something"));
  try {
    require_passed({.verification = {}, .problem = "C[1][2] is 3", .note = ""}, "an entry went");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const VerificationFailed& error) {
    EXPECT_THAT(error.what(), HasSubstr("C[1][2] is 3"));
    EXPECT_THAT(error.what(), HasSubstr("(an entry went)"));
    EXPECT_THAT(error.what(), HasSubstr("spjit devices"));
  }
}

TEST(KernelVerdict, OfAKernelThatSaysItIsOfAnotherProblemIsAProblem) {
  const Problem problem = small_problem(small_matrix());
  CompileOptions options;
  options.verify = VerifyMode::sampled;
  const auto verdict_with = [&](const std::function<void(KernelInfo&)>& change) {
    const KernelFamily& family = find_family("csr");
    const HostArtifact artifact = make_csr_artifact(problem, "csr", Target().isa());
    Kernel::Impl kernel(family, open_image(artifact.image()), nullptr, nlohmann::json::object());
    change(kernel.info);
    return verify_kernel(kernel, problem, options, {}).problem;
  };

  EXPECT_EQ(verdict_with([](KernelInfo&) {}), "");
  EXPECT_THAT(verdict_with([](KernelInfo& info) { info.epilogue.bias = true; }),
              AllOf(HasSubstr("wrong kernel: it is of A [5 x 5], n = 24, "),
                    HasSubstr("C = A * B + bias; expected A [5 x 5], "),
                    EndsWith("C: features, ldc = 24, C = A * B")));
  EXPECT_NE(verdict_with([](KernelInfo& info) { info.c_layout = Layout::tokens_major; }), "");
  EXPECT_NE(verdict_with([](KernelInfo& info) { info.b_layout = Layout::tokens_major; }), "");
  EXPECT_NE(verdict_with([](KernelInfo& info) { info.runtime_values = true; }), "");
  EXPECT_NE(verdict_with([](KernelInfo& info) { info.ldb = 25; }), "");
  EXPECT_NE(verdict_with([](KernelInfo& info) { info.ldc = 25; }), "");
  EXPECT_NE(verdict_with([](KernelInfo& info) { info.runtime_n = true; }), "");
}

TEST(Verification, OfNothingIsAModeAndAReasonInTheRecord) {
  Verification verification;
  EXPECT_EQ(to_json(verification), (nlohmann::json{{"mode", "none"}}));

  verification.reason = "no GPU";
  EXPECT_EQ(to_json(verification), (nlohmann::json{{"mode", "none"}, {"reason", "no GPU"}}));
  EXPECT_FALSE(verification.complete());
}

TEST(Verification, IsCompleteIfEveryRowAndColumnWasCompared) {
  Verification verification{.mode = VerifyMode::sampled,
                            .reason = "",
                            .device = "",
                            .rows = 4,
                            .rows_checked = 4,
                            .columns = 5,
                            .columns_checked = 5};
  EXPECT_TRUE(verification.complete());
  verification.rows_checked = 3;
  EXPECT_FALSE(verification.complete());
  verification.rows_checked = 4;
  verification.columns_checked = 4;
  EXPECT_FALSE(verification.complete());
}

}  // namespace

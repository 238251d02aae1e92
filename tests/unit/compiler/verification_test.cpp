#include "compiler/verification.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "kernels/unrolled_cuda/cuda_tile.hpp"
#include "kernels/workspace_pool.hpp"
#include "spjit/error.hpp"

namespace {

using namespace spjit;
using testing::HasSubstr;

using Layouts = std::vector<std::pair<std::int64_t, std::int64_t>>;

Layouts pairs_of(const std::vector<CheckLayout>& layouts) {
  Layouts pairs;
  for (const CheckLayout& layout : layouts) pairs.emplace_back(layout.ldb, layout.ldc);
  return pairs;
}

TEST(CheckLayouts, OfAHostKernelAreItsOwnAndOneWithWiderRows) {
  KernelInfo info;
  info.n = info.ldb = info.ldc = 8;
  EXPECT_EQ(pairs_of(check_layouts(info)), (Layouts{{8, 8}, {11, 11}}));

  info.ldb = 16;
  info.ldc = 9;
  EXPECT_EQ(pairs_of(check_layouts(info)), (Layouts{{16, 9}, {19, 12}}));
}

TEST(CheckLayouts, OfACudaKernelAreWhatItTakes) {
  KernelInfo info;
  info.cuda.emplace();
  info.n = 8;
  info.ldb = 8;
  info.ldc = 10;
  EXPECT_EQ(pairs_of(check_layouts(info)), (Layouts{{8, 10}}));

  info.runtime_n = true;
  EXPECT_EQ(pairs_of(check_layouts(info)), (Layouts{{8, 10}, {11, 13}}));

  info.ldc = k_cuda_max_leading_dimension - 2;
  EXPECT_EQ(check_layouts(info).size(), 1U);
}

TEST(CheckLayouts, OfPanelsAndOfTokensThatOverlapAreTheirOwn) {
  KernelInfo info;
  info.n = info.ldb = info.ldc = 8;
  info.cols = 20;
  info.b_layout = Layout::tokens_major;
  EXPECT_EQ(pairs_of(check_layouts(info)), (Layouts{{8, 8}}));

  info.ldb = 20;
  EXPECT_EQ(pairs_of(check_layouts(info)), (Layouts{{20, 8}, {23, 11}}));

  info.b_layout = info.c_layout = Layout::panel_major;
  EXPECT_EQ(check_layouts(info).size(), 1U);
}

/// A kernel that does `run` and writes nothing.
Verdict verdict_of_run(const std::function<void()>& run, const CompileContext& context = {}) {
  const CsrMatrix matrix{1, 1, {0, 1}, {0}, {1}};
  CompileOptions options;
  options.verify = VerifyMode::sampled;
  return verdict_of(
      {.matrix = matrix, .n = 4, .layouts = {{4, 4}}, .run = [&](const Arguments&) { run(); }},
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

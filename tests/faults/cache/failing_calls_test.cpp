/// @file
/// Calls that fail while a cache is used: every one of them, with every error.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "fault_injector.hpp"
#include "fault_testing.hpp"
#include "operations.hpp"

namespace spjit::test {
namespace {

/// Of what makes an entry appear. Whatever else is called takes part in cleaning up or reading.
constexpr std::array<std::string_view, 6> k_publishing_calls = {"open",  "write", "sync_file_range",
                                                                "fsync", "mkdir", "rename"};

/// With these a file may be beyond repair: its entry may be set aside, so that the kernel can be
/// published again.
bool blames_the_entry(const FaultPlan& plan) {
  return plan.error == EIO || plan.error == EACCES || plan.error == EPERM;
}

std::string named(const FaultPlan& plan) {
  return fmt::format("{}{}{}{}", ::strerrorname_np(plan.error),
                     plan.fault == Fault::fail_after ? " though done" : "",
                     plan.room_only ? " of what needs room" : "",
                     plan.lasting ? " from then on" : "");
}

std::vector<FaultPlan> plans() {
  std::vector<FaultPlan> all = {
      {.fault = Fault::fail, .error = EIO},
      {.fault = Fault::fail_after, .error = EIO},
      {.fault = Fault::fail, .error = ENOSPC, .lasting = true, .room_only = true}};
  if (sized(0, 1) == 0) return all;
  for (const int error :
       {ENOSPC, EDQUOT, EACCES, ESTALE, EINTR, EMFILE, ENOMEM, EROFS, ETIMEDOUT}) {
    all.push_back({.fault = Fault::fail, .error = error});
  }
  all.push_back({.fault = Fault::fail_after, .error = ESTALE});
  for (const int error : {EDQUOT, EROFS, EIO}) {
    all.push_back({.fault = Fault::fail, .error = error, .lasting = true, .room_only = true});
  }
  for (const int error : {EIO, ESTALE, EACCES}) {
    all.push_back({.fault = Fault::fail, .error = error, .lasting = true});
  }
  return all;
}

/// What must not be left in tmp/: everything, if the one call that failed had nothing to do with
/// cleaning up.
std::string left_too_much(const Trial& trial, const FaultPlan& plan, std::int64_t temporaries) {
  const bool cleaning_worked = !plan.lasting || plan.room_only;
  const bool was_publishing = std::ranges::count(k_publishing_calls, trial.call) != 0;
  const std::int64_t allowed = cleaning_worked && was_publishing ? 0 : 1;
  return temporaries <= allowed ? "" : fmt::format("{} temporaries are left", temporaries);
}

/// All calls of an operation in turn.
void walk_calls(const OperationWalk& walk, const Operation& operation, FaultPlan plan,
                Tally& tally) {
  std::vector<std::int64_t> keeps = operation.keeps;
  if (blames_the_entry(plan)) {
    for (const std::int64_t number : operation.reads) std::erase(keeps, number);
  }
  for (plan.at = 1;; plan.at += sized(3, 1)) {
    const Trial trial = walk.run(operation, plan);
    const std::string where =
        fmt::format("{}, {} call {} ({})", operation.name, named(plan), plan.at, trial.call);

    tally.check(where, trial.killed ? "it was killed" : trial.result.problem);
    if (trial.result.excuse.empty() && operation.missing) {
      tally.check(where + ", without an excuse", operation.missing(walk.root()));
    }
    const Aftermath after = walk.aftermath(operation, keeps);
    tally.check(where, after.problem);
    tally.check(where, left_too_much(trial, plan, after.temporaries));
    tally.check(where, left_after_sweep(walk.root()));
    if (trial.call.empty()) {
      tally.check(where + ", nothing failed, but", trial.result.excuse);
      return;
    }
    tally.count("failures");
    tally.count("temporaries left, then swept", after.temporaries);
  }
}

class CacheFailingCalls : public testing::TestWithParam<FaultPlan> {};

TEST_P(CacheFailingCalls, AreOneErrorOrANoteAndTearAndLoseNothing) {
  Tally tally("every call fails, " + named(GetParam()));
  const OperationWalk walk;

  for (const Operation& operation : walk.all()) walk_calls(walk, operation, GetParam(), tally);

  tally.count("operations", static_cast<std::int64_t>(walk.all().size()));
}

INSTANTIATE_TEST_SUITE_P(Plans, CacheFailingCalls, testing::ValuesIn(plans()));

TEST(CacheShortCalls, ChangeNothing) {
  Tally tally("short reads and writes");
  const OperationWalk walk;
  for (const Operation& operation : walk.all()) {
    const Trial trial = walk.run(operation, {.fault = Fault::shorten, .lasting = true});

    const Aftermath after = walk.aftermath(operation);

    tally.count("operations");
    tally.check(operation.name, trial.result.problem);
    tally.check(operation.name, trial.result.excuse);
    tally.check(operation.name, after.problem);
    EXPECT_EQ(after.temporaries, 0) << operation.name;
  }
}

}  // namespace
}  // namespace spjit::test

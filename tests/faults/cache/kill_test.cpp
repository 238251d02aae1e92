/// @file
/// Processes that are killed while they use a cache.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "fault_injector.hpp"
#include "fault_testing.hpp"
#include "matrix/random.hpp"
#include "operations.hpp"
#include "tests/support/long_tests.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::microseconds;
using testing_support::TemporaryDirectory;

constexpr std::int64_t k_rounds_a_folder = 25;
constexpr int k_kernels = 4;

/// Publishes and compiles for ever, after saying that it has begun.
std::string publish_for_ever(const fs::path& root, std::int64_t first_number,
                             const KernelCases& kernels, int begun) {
  static_cast<void>(::write(begun, "", 1) == 1);
  for (std::int64_t i = 0;; ++i) {
    const CacheStore store = open_store(root);
    publish_made_up(store, first_number + i);
    std::string problem = kernels.compile(root, i % kernels.size()).problem;
    if (!problem.empty()) return problem;
    // Published again by this process or the next one.
    static_cast<void>(store.remove(made_up_key(first_number + i)));
    publish_made_up(store, first_number + i);
  }
}

/// One of them, killed `delay` after it began. The problem is one of the child.
std::string kill_after(microseconds delay, const fs::path& root, std::int64_t first_number,
                       const KernelCases& kernels) {
  int ends[2] = {-1, -1};
  if (::pipe(ends) != 0) return "pipe";
  Child child([&] { return publish_for_ever(root, first_number, kernels, ends[1]); });
  ::close(ends[1]);
  char byte = 0;
  static_cast<void>(::read(ends[0], &byte, 1) == 1);
  ::close(ends[0]);
  std::this_thread::sleep_for(delay);
  child.kill();
  const ChildResult result = child.wait();
  return result.signal == SIGKILL ? "" : "it ended by itself: " + result.problem();
}

TEST(CacheKill, AtRandomMomentsTearsAndLosesNothing) {
  Tally tally("kill -9 at random moments of publishing");
  const std::int64_t kills = sized(60, 1000);
  const KernelCases kernels(k_kernels);
  RandomStream random(20260101);
  std::unique_ptr<TemporaryDirectory> scratch;
  for (std::int64_t i = 0; i < kills; ++i) {
    if (i % k_rounds_a_folder == 0) scratch = std::make_unique<TemporaryDirectory>();
    const fs::path root = scratch->path() / "cache";
    const std::string where = fmt::format("kill {}", i);
    // From the first call on; half of them in the first millisecond, when the cache comes into
    // being.
    const std::uint64_t span = i % 2 == 0 ? 1'000 : 40'000;
    const microseconds delay(static_cast<std::int64_t>(random.below(span)));

    tally.check(where, kill_after(delay, root, i * 1000, kernels));

    tally.count("kills");
    const Audit now = audit(root);
    tally.check(where, now.problem);
    tally.count("entries compared after kills", now.entries);
    if (now.damaged != 0) tally.check(where, "something was found damaged");
    const CacheStore store = open_store(root);
    publish_made_up(store, i * 1000);
    tally.check(where, problem_of_hit(store.lookup(made_up_key(i * 1000)), i * 1000));
    static_cast<void>(kernels.compile(root, i % k_kernels));
    tally.check(where, kernels.problem_of_hit(root, i % k_kernels));
    if (i % k_rounds_a_folder == k_rounds_a_folder - 1 || i + 1 == kills) {
      tally.count("temporaries left, then swept", audit(root).temporaries);
      tally.check(where, left_after_sweep(root));
    }
  }
}

TEST(CacheKill, BeforeAndAmidEveryCallTearsAndLosesNothing) {
  Tally tally("kill -9 before and amid every call");
  const OperationWalk walk;
  // After the first call every third one, of which a daily run takes a third in turn.
  const bool daily = sized(1, 0) == 1 && !testing_support::long_tests();
  const auto turn = daily ? static_cast<std::int64_t>(testing_support::turn_of(3)) : 0;
  const std::int64_t step = daily ? 9 : sized(3, 1);
  for (const Operation& operation : walk.all()) {
    for (const Fault fault : {Fault::kill, Fault::kill_midway}) {
      for (std::int64_t at = 1;; at += at == 1 && turn > 0 ? 3 * turn : step) {
        const Trial trial = walk.run(operation, {.fault = fault, .at = at});
        const std::string where =
            fmt::format("{}, {} {} call {} ({})", operation.name, "killed",
                        fault == Fault::kill ? "before" : "amid", at, trial.call);

        const Aftermath after = walk.aftermath(operation);

        tally.check(where, after.problem);
        tally.count("temporaries left, then swept", after.temporaries);
        tally.check(where, left_after_sweep(walk.root()));
        if (trial.call.empty()) {
          tally.check(where, trial.result.problem);
          EXPECT_GT(at, 3) << operation.name << ": no call was seen";
          break;
        }
        tally.count("kills");
        if (!trial.killed) tally.check(where, "it was not killed");
      }
    }
    tally.count("operations");
  }
}

}  // namespace
}  // namespace spjit::test

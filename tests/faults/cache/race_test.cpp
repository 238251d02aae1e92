/// @file
/// Many processes and threads on few keys.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fault_testing.hpp"
#include "matrix/random.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit::test {
namespace {

namespace fs = std::filesystem;
using testing_support::TemporaryDirectory;

constexpr const char* k_stop_name = "stop";

struct Race {
  fs::path folder;
  fs::path root;
  std::int64_t keys = 0;
  std::int64_t rounds = 0;
  bool removed_meanwhile = false;
};

/// The first problem of several threads.
class Problem {
 public:
  void report(const std::string& problem) {
    const std::lock_guard lock(mutex_);
    if (first_.empty()) first_ = problem;
  }
  [[nodiscard]] std::string first() const { return first_; }

 private:
  std::mutex mutex_;
  std::string first_;
};

/// Entry `number`: looked for, published, looked for again, and the kernel of that number.
std::string use(const Race& race, const CacheStore& store, const Compiler& compiler,
                const KernelCases& kernels, std::int64_t number) {
  if (auto wrong = problem_of(store.lookup(made_up_key(number)), number); !wrong.empty()) {
    return "looking up: " + wrong;
  }
  try {
    publish_made_up(store, number);
  } catch (const CacheError& error) {
    // Who clears a cache takes what is being published.
    if (!race.removed_meanwhile) return std::string("publishing: ") + error.what();
  }
  const CacheLookup found = store.lookup(made_up_key(number));
  const std::string wrong =
      race.removed_meanwhile ? problem_of(found, number) : problem_of_hit(found, number);
  if (!wrong.empty()) return "looking up what was published: " + wrong;
  const KernelCases::Outcome kernel = kernels.compile(compiler, number);
  if (!kernel.problem.empty()) return kernel.problem;
  if (!race.removed_meanwhile && !kernel.info.note.empty()) return kernel.info.note;
  return {};
}

void use_all(const Race& race, const KernelCases& kernels, std::uint64_t seed, Problem& problem) {
  try {
    const CacheStore store(race.root, SPJIT_VERSION);
    const Compiler compiler({}, {.directory = race.root});
    RandomStream random(seed);
    for (std::int64_t i = 0; i < race.rounds * race.keys; ++i) {
      // In the first round all go the same way, so that they meet; then each its own.
      const auto any =
          static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(race.keys)));
      problem.report(use(race, store, compiler, kernels, i < race.keys ? i : any));
    }
  } catch (const std::exception& error) {
    problem.report(error.what());
  }
}

std::string use_on_threads(const Race& race, const KernelCases& kernels, int threads,
                           std::uint64_t seed) {
  Problem problem;
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back(
        [&, i] { use_all(race, kernels, seed + static_cast<std::uint64_t>(i), problem); });
  }
  for (std::thread& thread : running) thread.join();
  return problem.first();
}

/// As if the entry had not been used for an hour. It may be gone.
void make_unused(const fs::path& root, std::int64_t number) {
  std::error_code ignored;
  fs::last_write_time(entry_path(root, made_up_key(number)) / "record.json",
                      fs::file_time_type::clock::now() - std::chrono::hours(1), ignored);
}

/// Takes away, in turn, one entry, those that are not in use, and all of them, until it is told to
/// stop.
std::string take_away(const Race& race) {
  const CacheStore store(race.root, SPJIT_VERSION);
  std::int64_t i = 0;
  for (; !fs::exists(race.folder / k_stop_name); ++i) {
    if (i % 50 == 49) {
      static_cast<void>(store.clear());
    } else if (i % 3 == 0) {
      make_unused(race.root, i % race.keys);
      static_cast<void>(store.prune({.most_bytes = 0}));
    } else {
      static_cast<void>(store.remove(made_up_key(i % race.keys)));
    }
  }
  return {};
}

void run_race(const Race& race, Tally& tally) {
  const std::int64_t processes = sized(8, 32);
  const int threads = static_cast<int>(sized(2, 4));
  const KernelCases kernels(static_cast<int>(race.keys));
  std::vector<std::unique_ptr<Child>> children;
  for (std::int64_t i = 0; i < processes; ++i) {
    const auto seed = static_cast<std::uint64_t>(i * 1000);
    children.push_back(std::make_unique<Child>(
        [&, seed] { return use_on_threads(race, kernels, threads, seed); }));
  }
  std::unique_ptr<Child> remover;
  if (race.removed_meanwhile) remover = std::make_unique<Child>([&] { return take_away(race); });

  for (const auto& child : children) tally.check("a process", child->wait().problem());

  tally.count("processes", processes);
  tally.count("threads each", threads);
  tally.count("keys", race.keys);
  tally.count("uses of a key", processes * threads * race.rounds * race.keys);
  if (remover) {
    fs::create_directory(race.folder / k_stop_name);
    tally.check("the process that removes", remover->wait().problem());
  }
  const Audit now = audit(race.root);
  tally.check("afterwards", now.problem);
  EXPECT_EQ(now.temporaries, 0);
  EXPECT_EQ(now.damaged, 0);
  if (race.removed_meanwhile) {
    EXPECT_LE(now.entries, 2 * race.keys);
  } else {
    EXPECT_EQ(now.entries, 2 * race.keys);
  }
}

Race race_in(const fs::path& folder, bool removed_meanwhile) {
  return {.folder = folder,
          .root = folder / "cache",
          .keys = sized(10, 20),
          .rounds = sized(4, 20),
          .removed_meanwhile = removed_meanwhile};
}

TEST(CacheRace, EndsWithOneWholeEntryAKey) {
  Tally tally("processes and threads racing");
  const TemporaryDirectory folder;

  run_race(race_in(folder.path(), false), tally);
}

TEST(CacheRace, WithAProcessThatRemovesNobodySeesHalfAnEntry) {
  Tally tally("processes and threads racing with one that removes");
  const TemporaryDirectory folder;

  run_race(race_in(folder.path(), true), tally);
}

}  // namespace
}  // namespace spjit::test

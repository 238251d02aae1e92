/// @file
/// Clocks that go backwards, jump, or differ between processes.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fault_injector.hpp"
#include "fault_testing.hpp"
#include "runtime/cache/cache_directory.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing_support::TemporaryDirectory;

constexpr auto k_day = 24h;
constexpr std::array<std::chrono::hours, 6> k_shifts = {-2h,   2h,           -k_day,
                                                        k_day, -400 * k_day, 400 * k_day};

/// `body` in a child whose clock is off.
template <typename Body>
std::string with_clock(std::chrono::hours shift, Body body) {
  return in_child([&]() -> std::string {
           FaultInjector::shift_clock(shift);
           return body();
         })
      .problem();
}

std::string at(std::chrono::hours shift) { return fmt::format("clock off by {} h", shift.count()); }

TEST(CacheClock, EntriesOfAnyClockAreFoundUnderAnyOther) {
  Tally tally("clocks that differ");
  const TemporaryDirectory folder;
  const fs::path root = folder.path() / "cache";
  std::int64_t number = 0;
  for (const auto shift : k_shifts) {
    ++number;
    tally.check(at(shift), with_clock(shift, [&]() -> std::string {
                  publish_made_up(open_store(root), number);
                  const CacheLookup found = open_store(root).lookup(made_up_key(number));
                  if (!found.entry) return "lost: " + found.miss_reason;
                  const std::string& created = found.entry->record.created;
                  return created.size() == 20 && created.ends_with("Z") ? "" : "when? " + created;
                }));
    for (std::int64_t other = 1; other <= number; ++other) {
      tally.check(at(shift), problem_of_hit(open_store(root).lookup(made_up_key(other)), other));
    }
    tally.count("clocks");
  }
  EXPECT_EQ(audit(root).problem, "");
  EXPECT_EQ(audit(root).entries, number);
}

TEST(CacheClock, WhatIsBeingWrittenIsNotSweptUnderAnyClock) {
  Tally tally("sweeping under other clocks");
  const TemporaryDirectory folder;
  const fs::path root = folder.path() / "cache";
  publish_made_up(open_store(root), 1);
  for (const auto shift : k_shifts) {
    const fs::path entry = entry_path(root, made_up_key(2));
    TemporaryEntry unfinished(root);
    unfinished.add("kernel.o", {});

    tally.check(at(shift), with_clock(shift, [&] {
                  return problem_of_hit(open_store(root).lookup(made_up_key(1)), 1);
                }));

    tally.count("openings");
    const bool there = fs::exists(unfinished.path() / "kernel.o");
    tally.check(at(shift), there ? "" : "what was being written was swept");
    EXPECT_TRUE(!there || unfinished.commit(entry));
    fs::remove_all(entry);
  }
}

TEST(CacheClock, WhatWasLeftInTheFutureGoesToo) {
  Tally tally("leftovers with times in the future");
  const TemporaryDirectory folder;
  const fs::path root = folder.path() / "cache";
  publish_made_up(open_store(root), 1);
  for (const char* place : {"tmp", "damaged"}) {
    const fs::path left = root / place / "1-0123456789abcdef";
    fs::create_directories(left);
    fs::last_write_time(left, fs::file_time_type::clock::now() + 400 * k_day);

    static_cast<void>(open_store(root));

    const bool in_future =
        fs::exists(left) && fs::last_write_time(left) > fs::file_time_type::clock::now() + 1h;
    tally.check(place, in_future ? "it would stay for over a year" : "");
    tally.count("leftovers");
  }
  tally.check("later", left_after_sweep(root));
}

/// Publishes, looks up and compiles while its clock jumps about.
std::string use_with_jumps(const fs::path& root, const KernelCases& kernels, std::int64_t rounds) {
  for (std::int64_t i = 0; i < rounds; ++i) {
    FaultInjector::shift_clock(k_shifts.at(static_cast<std::size_t>(i) % k_shifts.size()));
    const std::int64_t number = i % kernels.size();
    const CacheStore store = open_store(root);
    publish_made_up(store, number);
    auto lost = problem_of_hit(store.lookup(made_up_key(number)), number);
    if (!lost.empty()) return lost;
    const KernelCases::Outcome kernel = kernels.compile(root, number);
    if (!kernel.problem.empty()) return kernel.problem;
    if (!kernel.info.note.empty()) return kernel.info.note;
  }
  return {};
}

TEST(CacheClock, JumpsDisturbNobody) {
  Tally tally("clocks that jump about");
  const TemporaryDirectory folder;
  const fs::path root = folder.path() / "cache";
  const KernelCases kernels(8);
  const std::int64_t rounds = sized(40, 1000);
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(
        std::make_unique<Child>([&] { return use_with_jumps(root, kernels, rounds); }));
  }

  for (const auto& child : children) tally.check("a process", child->wait().problem());

  tally.count("jumps", 4 * rounds);
  const Audit now = audit(root);
  tally.check("afterwards", now.problem);
  EXPECT_EQ(now.entries, 2 * kernels.size());
  EXPECT_EQ(now.temporaries + now.damaged, 0);
}

TEST(CacheClock, ASearchWithABudgetEndsWhileTheClockJumps) {
  Tally tally("searches while the clock jumps");
  const TemporaryDirectory folder;
  CompileOptions options;
  options.policy.search = SearchMode::ranked;
  options.policy.search_budget_ms = 200;
  const CsrMatrix matrix = testing_support::random_matrix(40, 30, 0.8);

  const ChildResult child = in_child([&]() -> std::string {
    std::atomic<bool> stop = false;
    std::thread jumping([&] {
      for (std::size_t i = 0; !stop; ++i) {
        FaultInjector::shift_clock(k_shifts.at(i % k_shifts.size()));
        std::this_thread::sleep_for(1ms);
      }
    });
    const Compiler compiler(options, {.directory = folder.path() / "cache"});
    const Kernel kernel = compiler.compile({.a = matrix, .n = KernelCases::k_columns});
    stop = true;
    jumping.join();
    return kernel.rows() == 40 ? "" : "no kernel";
  });

  tally.count("searches");
  tally.check("a search", child.problem());
}

}  // namespace
}  // namespace spjit::test

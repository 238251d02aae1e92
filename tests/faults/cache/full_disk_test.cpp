/// @file
/// Disks without room: a small tmpfs of the test's own, or a limit on the size of files where none
/// can be mounted. (Every call that can meet ENOSPC is walked over by failing_calls_test.cpp.)

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "fault_testing.hpp"
#include "spjit/error.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit::test {
namespace {

namespace fs = std::filesystem;
using testing_support::TemporaryDirectory;

constexpr std::int64_t k_old = 1;
constexpr std::int64_t k_page_bytes = 4096;

std::int64_t free_blocks(const fs::path& folder) {
  struct statvfs status {};
  return ::statvfs(folder.c_str(), &status) == 0 ? static_cast<std::int64_t>(status.f_bfree) : -1;
}

std::int64_t free_inodes(const fs::path& folder) {
  struct statvfs status {};
  return ::statvfs(folder.c_str(), &status) == 0 ? static_cast<std::int64_t>(status.f_ffree) : -1;
}

/// Takes all blocks but `left`.
void fill(const fs::path& folder, std::int64_t left) {
  const std::int64_t take = free_blocks(folder) - left;
  const std::string block(static_cast<std::size_t>(k_page_bytes), 'x');
  std::ofstream file(folder / "filler", std::ios::binary);
  for (std::int64_t i = 0; i < take; ++i) file << block;
}

/// An entry and a kernel where there may be no room for them. `room` is added to the error.
struct Attempt {
  std::string problem;
  bool published = false;
};

Attempt attempt(const fs::path& root, std::int64_t number, const KernelCases& kernels) {
  const CacheStore store = open_store(root);
  Attempt result;
  try {
    publish_made_up(store, number);
    result.published = true;
    result.problem = problem_of_hit(store.lookup(made_up_key(number)), number);
  } catch (const CacheError&) {
    if (store.lookup(made_up_key(number)).entry) result.problem = "refused, and yet there";
  }
  const KernelCases::Outcome kernel = kernels.compile(root, number % kernels.size());
  result.problem = first_of({result.problem, kernel.problem});
  if (kernel.info.note.empty()) {
    result.problem =
        first_of({result.problem, kernels.problem_of_hit(root, number % kernels.size())});
  }
  const Audit now = audit(root);
  if (now.temporaries + now.damaged != 0) result.problem = "something is left behind";
  result.problem = first_of({now.problem, result.problem});
  return result;
}

/// With `left` pages or files free, then with room again; in mounts of its own.
std::string fill_and_free(const fs::path& folder, std::int64_t left_pages,
                          const KernelCases& kernels) {
  if (!mount_alone(folder, "tmpfs", 0, "size=512k,mode=0700")) return k_cannot_mount;
  const fs::path root = folder / "cache";
  publish_made_up(open_store(root), k_old);
  fill(folder, left_pages);
  const std::int64_t free_before = free_blocks(folder);

  const Attempt full = attempt(root, 2, kernels);

  if (!full.problem.empty()) return full.problem;
  const bool nothing_kept = audit(root).entries == 1;
  if (nothing_kept && free_blocks(folder) + 2 < free_before) return "room is lost for good";
  const CacheStore store = open_store(root);
  if (auto lost = problem_of_hit(store.lookup(made_up_key(k_old)), k_old); !lost.empty()) {
    return lost;
  }
  // What nobody needs any more can go, and makes room.
  if (!store.remove(made_up_key(k_old))) return "not removed";
  static_cast<void>(store.clear());
  if (audit(root).entries != 0) return "not cleared";
  fs::remove(folder / "filler");
  const Attempt free = attempt(root, 2, kernels);
  if (!free.published) return "refused with room again";
  return free.problem;
}

std::string few_files(const fs::path& folder, std::int64_t files, const KernelCases& kernels) {
  const std::string room = fmt::format("size=8m,mode=0700,nr_inodes={}", files + 1);
  if (!mount_alone(folder, "tmpfs", 0, room)) return k_cannot_mount;
  const fs::path root = folder / "cache";
  const Attempt result = attempt(root, 2, kernels);
  if (!result.problem.empty()) return result.problem;
  if (free_inodes(folder) < 0) return "no such file system";
  if (!fs::exists(root / "CACHEDIR.TAG")) return {};  // not even that
  static_cast<void>(open_store(root).clear());
  return audit(root).entries == 0 ? "" : "not cleared";
}

TEST(CacheFullDisk, RefusesOnceAndLeavesNothing) {
  Tally tally("disk full, by pages and by files");
  const TemporaryDirectory folder;
  const KernelCases kernels(3);
  const std::int64_t step = sized(4, 1);
  // Made-up entry 2 needs about ten pages, its directories none.
  for (std::int64_t left = 0; left <= 32; left += step) {
    const ChildResult child = in_child([&] { return fill_and_free(folder.path(), left, kernels); });
    if (child.said == k_cannot_mount) GTEST_SKIP() << "no file system can be mounted here";
    tally.check(fmt::format("{} pages free", left), child.problem());
    tally.count("amounts of room");
  }
  for (std::int64_t files = 1; files <= 32; files += step) {
    const ChildResult child = in_child([&] { return few_files(folder.path(), files, kernels); });
    tally.check(fmt::format("{} files free", files), child.problem());
    tally.count("numbers of files");
  }
}

TEST(CacheFullDisk, ALimitOnFileSizesIsTheSame) {
  Tally tally("limit on file sizes");
  const KernelCases kernels(3);
  const std::int64_t step = sized(2000, 100);
  std::int64_t published = 0;
  for (std::int64_t limit = 0; limit <= 24'000; limit += step) {
    const TemporaryDirectory folder;
    const ChildResult child = in_child([&]() -> std::string {
      const rlimit bytes{.rlim_cur = static_cast<rlim_t>(limit), .rlim_max = RLIM_INFINITY};
      if (::setrlimit(RLIMIT_FSIZE, &bytes) != 0) return "setrlimit";
      std::signal(SIGXFSZ, SIG_IGN);
      const Attempt result = attempt(folder.path() / "cache", 2, kernels);
      return result.problem.empty() && result.published ? "published" : result.problem;
    });
    if (child.said == "published") {
      ++published;
    } else {
      tally.check(fmt::format("at most {} bytes", limit), child.problem());
    }
    tally.count("limits");
  }
  tally.count("limits that let everything pass", published);
  EXPECT_GT(published, 0);
}

}  // namespace
}  // namespace spjit::test

/// @file
/// Caches that may not be read or written, in every part.

#include <fmt/format.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "fault_testing.hpp"
#include "spjit/error.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit::test {
namespace {

namespace fs = std::filesystem;
using testing_support::TemporaryDirectory;

constexpr const char* k_cannot = "not allowed here";
constexpr std::int64_t k_there = 1;
constexpr std::int64_t k_written = 2;

constexpr uid_t k_nobody = 65534;

/// Root may do everything; then nobody takes the test over.
bool give_up_root() {
  if (::geteuid() != 0) return true;
  return ::setgroups(0, nullptr) == 0 && ::setgid(k_nobody) == 0 && ::setuid(k_nobody) == 0;
}

/// For who takes over.
void hand_over(const fs::path& folder) {
  EXPECT_TRUE(::geteuid() != 0 || ::chown(folder.c_str(), k_nobody, k_nobody) == 0);
}

/// `body` must return or throw a CacheError. What is wrong, if it throws something else.
template <typename Body>
std::string tried(const char* what, Body body) {
  try {
    return body();
  } catch (const CacheError&) {
    return {};
  } catch (const std::exception& error) {
    return fmt::format("{} threw no CacheError: {}", what, error.what());
  }
}

/// Everything that is done to a cache; it may be refused, but what is returned must be right.
std::string use(const fs::path& root, const KernelCases& kernels) {
  std::string problem = tried("looking up", [&] {
    const CacheStore store = open_store(root);
    const CacheLookup found = store.lookup(made_up_key(k_there));
    return found.entry ? problem_of(found, k_there) : std::string();
  });
  for (const std::int64_t number : {k_there, k_written}) {
    problem = first_of({problem, tried("publishing", [&] {
                          const CacheStore store = open_store(root);
                          publish_made_up(store, number);
                          return std::string();
                        })});
  }
  problem = first_of({problem, tried("listing", [&] {
                        static_cast<void>(open_store(root).list());
                        return std::string();
                      })});
  for (const std::int64_t number : {0, 1}) {
    try {
      const KernelCases::Outcome kernel = kernels.compile(root, number);
      problem = first_of({problem, kernel.problem});
      const std::string again = kernels.problem_of_hit(root, number);
      if (kernel.info.note.empty()) problem = first_of({problem, again});
    } catch (const Error& error) {
      problem = first_of({problem, fmt::format("compiling threw: {}", error.what())});
    }
  }
  return problem;
}

std::vector<fs::path> parts(const fs::path& root) {
  const fs::path entry = entry_path(root, made_up_key(k_there));
  return {root,  root / "CACHEDIR.TAG", root / "tmp",         root / "damaged", entry.parent_path(),
          entry, entry / "kernel.o",    entry / "record.json"};
}

/// A cache of this process' user in which one part has another mode for a while.
std::string with_mode(const fs::path& root, std::size_t part, mode_t mode,
                      const KernelCases& kernels) {
  if (!give_up_root()) return k_cannot;
  const CacheStore store = open_store(root);
  publish_made_up(store, k_there);
  static_cast<void>(kernels.compile(root, 0));
  fs::create_directories(root / "damaged");
  const fs::path changed = parts(root)[part];
  struct stat before {};
  if (::stat(changed.c_str(), &before) != 0) return "no " + changed.native();
  if (::chmod(changed.c_str(), mode) != 0) return "chmod " + changed.native();

  const std::string problem = use(root, kernels);

  // It may have been set aside meanwhile, and published again with the right mode.
  static_cast<void>(::chmod(changed.c_str(), before.st_mode & 07777U));
  const Audit now = audit(root);
  publish_made_up(store, k_there);
  publish_made_up(store, k_written);
  return first_of({problem, now.problem, now.temporaries == 0 ? "" : "a temporary is left",
                   problem_of_hit(store.lookup(made_up_key(k_there)), k_there),
                   problem_of_hit(store.lookup(made_up_key(k_written)), k_written)});
}

TEST(CachePermissions, AnyPartMayBeForbidden) {
  Tally tally("permission denied, part by part");
  const KernelCases kernels(2);
  const std::size_t count = parts("/").size();
  for (std::size_t part = 0; part < count; ++part) {
    for (const mode_t mode : {0000U, 0200U, 0400U, 0500U, 0600U}) {
      const TemporaryDirectory folder;
      hand_over(folder.path());
      const fs::path root = folder.path() / "mine" / "cache";

      const ChildResult child = in_child([&] { return with_mode(root, part, mode, kernels); });

      if (child.said == k_cannot) GTEST_SKIP() << "root cannot drop its privileges here";
      tally.check(fmt::format("{} with mode {:o}", parts("cache")[part].native(), mode),
                  child.problem());
      tally.count("parts and modes");
    }
  }
}

/// Hits work, and what cannot be published says so.
std::string use_read_only(const fs::path& root, const KernelCases& kernels) {
  const CacheStore store = open_store(root);
  if (auto lost = problem_of_hit(store.lookup(made_up_key(k_there)), k_there); !lost.empty()) {
    return lost;
  }
  if (auto lost = kernels.problem_of_hit(root, 0); !lost.empty()) return lost;
  const KernelCases::Outcome kernel = kernels.compile(root, 1);
  if (kernel.info.note.find("not cached") == std::string::npos) {
    return "no note: " + kernel.info.note;
  }
  try {
    publish_made_up(store, k_written);
  } catch (const CacheError&) {
    return kernel.problem;
  }
  return "published into a read-only directory";
}

void prepare(const fs::path& root, const KernelCases& kernels) {
  publish_made_up(open_store(root), k_there);
  static_cast<void>(kernels.compile(root, 0));
}

TEST(CachePermissions, AReadOnlyDirectoryHits) {
  Tally tally("read-only directory");
  const TemporaryDirectory folder;
  hand_over(folder.path());
  const KernelCases kernels(2);
  const fs::path root = folder.path() / "mine" / "cache";

  const ChildResult child = in_child([&]() -> std::string {
    if (!give_up_root()) return k_cannot;
    prepare(root, kernels);
    for (const auto& item : fs::recursive_directory_iterator(root)) {
      fs::permissions(item.path(), item.is_directory() ? fs::perms(0500) : fs::perms(0400));
    }
    fs::permissions(root, fs::perms(0500));
    std::string problem = use_read_only(root, kernels);
    fs::permissions(root, fs::perms(0700));
    for (const auto& item : fs::recursive_directory_iterator(root)) {
      if (item.is_directory()) fs::permissions(item.path(), fs::perms(0700));
    }
    return first_of({problem, audit(root).problem});
  });

  if (child.said == k_cannot) GTEST_SKIP() << "root cannot drop its privileges here";
  tally.count("directories");
  tally.check("read-only directory", child.problem());
}

TEST(CachePermissions, AReadOnlyFileSystemHits) {
  Tally tally("read-only file system");
  const TemporaryDirectory folder;
  const KernelCases kernels(2);
  const fs::path root = folder.path() / "cache";
  prepare(root, kernels);

  const ChildResult child = in_child([&]() -> std::string {
    const char* path = root.c_str();
    constexpr unsigned long k_again = MS_REMOUNT | MS_BIND | MS_RDONLY;
    const bool mounted = ::unshare(CLONE_NEWNS) == 0 &&
                         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         ::mount(path, path, nullptr, MS_BIND, nullptr) == 0 &&
                         ::mount("none", path, nullptr, k_again, nullptr) == 0;
    return mounted ? use_read_only(root, kernels) : k_cannot;
  });

  if (child.said == k_cannot) GTEST_SKIP() << "no file system can be mounted here";
  tally.count("file systems");
  tally.check("read-only file system", child.problem());
  EXPECT_EQ(audit(root).problem, "");
}

}  // namespace
}  // namespace spjit::test

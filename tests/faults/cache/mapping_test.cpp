/// @file
/// Kernels that run in the pages of a file of the cache, and files that cannot be mapped.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "fault_injector.hpp"
#include "fault_testing.hpp"
#include "spjit/bundle.hpp"
#include "spjit/error.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit::test {
namespace {

namespace fs = std::filesystem;
using namespace testing_support;

constexpr std::int64_t k_columns = 33;

/// The mappings of an entry's object in this process, as /proc/self/smaps has them.
struct Mapped {
  std::string permissions;         ///< of each, in order: "r--p r-xp r--p"
  std::int64_t resident_kb = 0;    ///< of all
  std::int64_t shared_kb = 0;      ///< with other mappings
  std::int64_t anonymous_kb = 0;   ///< the process's own copy
  std::int64_t executable_kb = 0;  ///< of address space
};

Mapped mapped(const fs::path& file) {
  Mapped result;
  std::ifstream smaps("/proc/self/smaps");
  bool is_of_file = false;
  bool is_executable = false;
  for (std::string line; std::getline(smaps, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first.back() != ':') {
      std::string permissions;
      words >> permissions;
      is_of_file = line.ends_with(file.native());
      is_executable = permissions.find('x') != std::string::npos;
      if (is_of_file) result.permissions += (result.permissions.empty() ? "" : " ") + permissions;
      continue;
    }
    if (!is_of_file) continue;
    std::int64_t kb = 0;
    words >> kb;
    if (first == "Size:" && is_executable) result.executable_kb += kb;
    if (first == "Rss:") result.resident_kb += kb;
    if (first == "Shared_Clean:" || first == "Shared_Dirty:") result.shared_kb += kb;
    if (first == "Anonymous:") result.anonymous_kb += kb;
  }
  return result;
}

/// An unrolled kernel of 100 KB, compiled by as many processes as are asked.
class CacheMapping : public testing::Test {
 protected:
  [[nodiscard]] fs::path root() const { return scratch_.path() / "cache"; }
  [[nodiscard]] fs::path object(const Kernel& kernel) const {
    return entry_path(root(), kernel.info().key) / "kernel.o";
  }

  [[nodiscard]] Kernel compile(bool allow_unsafe = false) const {
    CacheOptions options = cached_in(root());
    options.allow_unsafe_directory = allow_unsafe;
    return Compiler(hot_options(), options)
        .compile(testing_support::problem_of(matrix_, k_columns));
  }

  [[nodiscard]] std::string problem_of_run(const Kernel& kernel) const {
    const std::vector<float> b = dense_values(matrix_.cols * k_columns);
    std::vector<float> c(static_cast<std::size_t>(matrix_.rows * k_columns), -7.0F);
    kernel.run(b.data(), c.data());
    return same_bits(c, expected_) ? "" : "wrong values";
  }

  /// What is wrong with a kernel that has to come out of the cache, with these mappings.
  [[nodiscard]] std::string problem_of_hit(const std::string& permissions) const {
    const Kernel kernel = compile();
    if (!kernel.info().from_cache) return "it was lost: " + kernel.info().note;
    if (!kernel.info().note.empty()) return "a note: " + kernel.info().note;
    const std::string found = mapped(object(kernel)).permissions;
    if (found != permissions) return fmt::format("mapped '{}', not '{}'", found, permissions);
    return problem_of_run(kernel);
  }

  /// problem_of_hit() where the cache is on a file system of its own.
  [[nodiscard]] ChildResult on_mount(const char* type, unsigned long flags,
                                     const std::string& permissions) const {
    return in_child([&]() -> std::string {
      if (!mount_alone(scratch_.path(), type, flags, "mode=0700")) return k_cannot_mount;
      const Kernel fresh = compile();
      if (!fresh.info().note.empty()) return fresh.info().note;
      return first_of({problem_of_run(fresh), problem_of_hit(permissions)});
    });
  }

  [[nodiscard]] fs::path write_bundle(const Kernel& kernel) const {
    const fs::path path = root() / "model.spjit";
    BundleWriter writer(path);
    writer.add("fc1", kernel);
    writer.finish();
    return path;
  }

  /// Two processes that load a kernel have all of its pages in `file` in common.
  void expect_shared(const std::function<Kernel()>& load, const fs::path& file) const {
    const auto await = [this](const char* name) {
      while (!fs::exists(root() / name)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    Child other([&]() -> std::string {
      const Kernel kernel = load();
      std::ofstream(root() / "ready") << "ready";
      await("done");
      return problem_of_run(kernel);
    });
    await("ready");
    const ChildResult here = in_child([&]() -> std::string {
      const Kernel kernel = load();
      const Mapped now = mapped(file);
      if (now.resident_kb < 100) return fmt::format("only {} KB are there", now.resident_kb);
      if (now.shared_kb != now.resident_kb || now.anonymous_kb != 0) {
        return fmt::format("of {} KB {} are shared, {} its own", now.resident_kb, now.shared_kb,
                           now.anonymous_kb);
      }
      return problem_of_run(kernel);
    });
    std::ofstream(root() / "done") << "done";
    EXPECT_EQ(here.problem(), "");
    EXPECT_EQ(other.wait().problem(), "");
  }

 private:
  TemporaryDirectory scratch_;
  CsrMatrix matrix_ = random_matrix(150, 170, 0.5);
  std::vector<float> expected_ = reference_product(
      matrix_, Target().isa(), dense_values(matrix_.cols* k_columns).data(), k_columns, k_columns);
};

TEST_F(CacheMapping, TextRunsInThePagesOfItsFile) {
  const Kernel fresh = compile();
  EXPECT_EQ(mapped(object(fresh)).permissions, "");

  EXPECT_EQ(problem_of_hit("r--p r-xp r--p"), "");

  const Kernel kernel = compile();
  const Mapped now = mapped(object(kernel));
  const HostImage image = read_object(kernel.artifact().file(k_object_file), k_object_name);
  EXPECT_EQ(now.anonymous_kb, 0);
  // Nothing but text is executable.
  EXPECT_LT(now.executable_kb * 1024 - kernel.info().code_bytes, 4096);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(image.weights.data()) % 4096, 0U);
}

TEST_F(CacheMapping, ProcessesShareThePages) {
  const fs::path file = object(compile());

  expect_shared([this] { return compile(); }, file);
}

TEST_F(CacheMapping, ProcessesShareThePagesOfABundle) {
  const fs::path file = write_bundle(compile());
  const auto load = [&] { return Bundle::open(file).load(0); };

  const ChildResult here = in_child([&]() -> std::string {
    const Kernel kernel = load();
    const Mapped now = mapped(file);
    if (now.permissions != "r--p r-xp r--p") return "mapped " + now.permissions;
    const std::int64_t more_kb = now.executable_kb - kernel.info().code_bytes / 1024;
    return more_kb > 4 ? fmt::format("{} KB too many are executable", more_kb) : "";
  });

  EXPECT_EQ(here.problem(), "");
  expect_shared(load, file);
}

TEST_F(CacheMapping, ABundleThatIsReplacedWhileItsKernelsRunDoesNotReachThem) {
  const fs::path file = write_bundle(compile());
  const Kernel kernel = Bundle::open(file).load(0);

  BundleWriter(file).finish();
  fs::remove(file);

  EXPECT_EQ(problem_of_run(kernel), "");
}

TEST_F(CacheMapping, RemovingAndReplacingTheEntryDoesNotReachAKernel) {
  static_cast<void>(compile());
  const Kernel kernel = compile();
  ASSERT_TRUE(kernel.info().from_cache);

  ASSERT_TRUE(open_store(root()).remove(kernel.info().key));
  EXPECT_EQ(problem_of_run(kernel), "");

  const Kernel again = compile();
  EXPECT_FALSE(again.info().from_cache);
  static_cast<void>(open_store(root()).clear());
  fs::remove_all(root());
  EXPECT_EQ(first_of({problem_of_run(kernel), problem_of_run(again)}), "");
}

TEST_F(CacheMapping, ADamagedOrTruncatedFileIsRefused) {
  const Kernel fresh = compile();
  const auto after = [&](const std::function<void(const fs::path&)>& damage) -> std::string {
    make_writable(object(fresh));
    damage(object(fresh));
    const Kernel kernel = compile();
    if (kernel.info().from_cache) return "it was believed";
    if (kernel.info().note.find(kernel.info().key) == std::string::npos) return "no note names it";
    return first_of({problem_of_run(kernel), problem_of_hit("r--p r-xp r--p")});
  };
  const std::uintmax_t size = fs::file_size(object(fresh));
  Tally tally("text, weights and padding damaged");

  for (std::uintmax_t at = 0; at < size; at += 4000) {
    tally.check(fmt::format("byte {}", at), after([&](const fs::path& file) {
                  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
                  stream.seekg(static_cast<std::streamoff>(at));
                  const int byte = stream.get();
                  stream.seekp(static_cast<std::streamoff>(at));
                  stream.put(static_cast<char>(byte ^ 0x10));
                }));
    tally.count("bytes");
  }
  for (const std::uintmax_t length : {std::uintmax_t{0}, size / 2, size - 1}) {
    tally.check(fmt::format("{} bytes left", length),
                after([&](const fs::path& file) { fs::resize_file(file, length); }));
    tally.count("lengths");
  }
}

TEST_F(CacheMapping, ItsOwnerCannotWriteTheFileByMistake) {
  const Kernel fresh = compile();

  const fs::perms perms = fs::status(object(fresh)).permissions();

  EXPECT_EQ(perms, fs::perms::owner_read);
}

TEST_F(CacheMapping, WhatOthersMayWriteIsCopied) {
  static_cast<void>(compile());

  const Kernel kernel = compile(true);

  EXPECT_TRUE(kernel.info().from_cache);
  EXPECT_EQ(mapped(object(kernel)).permissions, "");
  EXPECT_EQ(problem_of_run(kernel), "");
}

TEST_F(CacheMapping, TextThatBeginsWithinAPageIsCopied) {
  const Kernel fresh = compile();
  const CacheStore store = open_store(root());
  store.remove(fresh.info().key);
  const std::vector<std::byte> linked = fresh.object("kernel");
  store.publish(fresh.info().key, std::vector<CacheFile>{{"kernel.o", linked}},
                nlohmann::json::parse(fresh.record()));

  EXPECT_EQ(problem_of_hit("r--p"), "");
}

TEST_F(CacheMapping, OnAFileSystemWithoutExecutionTextIsCopied) {
  const ChildResult child = on_mount("tmpfs", MS_NOEXEC, "r--p");
  if (child.said == k_cannot_mount) GTEST_SKIP() << "no file system can be mounted here";

  EXPECT_EQ(child.problem(), "");
}

TEST_F(CacheMapping, OnAFileSystemThatIsNotKnownToKeepPagesTheFileIsCopied) {
  const ChildResult known = on_mount("tmpfs", 0, "r--p r-xp r--p");
  if (known.said == k_cannot_mount) GTEST_SKIP() << "no file system can be mounted here";

  const ChildResult unknown = on_mount("ramfs", 0, "");

  EXPECT_EQ(known.problem(), "");
  EXPECT_EQ(unknown.problem(), "");
}

TEST_F(CacheMapping, AFileThatCannotBeMappedIsCopied) {
  static_cast<void>(compile());
  FaultInjector injector(root());

  injector.arm({.fault = Fault::fail, .error = ENODEV, .only = "mmap"});
  const std::string problem = problem_of_hit("");
  injector.disarm();

  EXPECT_TRUE(injector.hit());
  EXPECT_EQ(problem, "");
}

}  // namespace
}  // namespace spjit::test

#pragma once

/// @file
/// Helpers of the fault tests: how much is tried, processes, and entries whose content is known.
/// Checks whether everything in a cache directory is right.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/cache/cache_store.hpp"
#include "spjit/compiler.hpp"
#include "spjit/matrix.hpp"
#include "spjit/version.hpp"

namespace spjit::test {

/// `small`, or `full` if SPJIT_FAULTS is "full" (scripts/check/fault_tests.sh sets it).
[[nodiscard]] std::int64_t sized(std::int64_t small, std::int64_t full);

/// The cache there, of this version.
[[nodiscard]] inline CacheStore open_store(const std::filesystem::path& root) {
  return {root, SPJIT_VERSION};
}

/// Counts what was done and found; prints one line "fault test: NAME: COUNTS; FINDINGS" at the end.
/// A finding fails the test.
class Tally {
 public:
  explicit Tally(std::string name) : name_(std::move(name)) {}
  Tally(const Tally&) = delete;
  Tally& operator=(const Tally&) = delete;
  ~Tally();

  void count(const std::string& what, std::int64_t times = 1) { counts_[what] += times; }
  /// `what` describes what is wrong, empty: nothing. `where` is put in front.
  void check(const std::string& where, const std::string& what);

 private:
  std::string name_;
  std::map<std::string, std::int64_t> counts_;
  std::int64_t findings_ = 0;
};

struct ChildResult {
  int signal = 0;    ///< that ended it; 0: it came to its end
  std::string said;  ///< what its body returned; if it threw, "threw: " and what

  /// The problem with a child that was to end by itself and say nothing.
  [[nodiscard]] std::string problem() const;
};

/// A forked process. It is killed by SIGALRM if it takes more than five minutes: it hangs.
class Child {
 public:
  explicit Child(const std::function<std::string()>& body);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  void kill() const;
  /// Waits for its end. Once.
  [[nodiscard]] ChildResult wait();

 private:
  pid_t pid_ = -1;
  int output_ = -1;
};

[[nodiscard]] inline ChildResult in_child(const std::function<std::string()>& body) {
  return Child(body).wait();
}

/// Answer of a child that cannot mount_alone().
inline constexpr const char* k_cannot_mount = "cannot mount";

/// Mounts a file system where the calling process, but nobody else, sees it. False if that is not
/// allowed here.
[[nodiscard]] bool mount_alone(const std::filesystem::path& folder, const char* type,
                               unsigned long flags, const std::string& options);

/// The first of them that is not empty.
[[nodiscard]] std::string first_of(std::initializer_list<std::string> problems);

/// Entries whose every byte follows from their number, so that it can be compared whatever
/// checksums say. All are of version SPJIT_VERSION.
[[nodiscard]] std::string made_up_key(std::int64_t number);
/// Throws what `CacheStore::publish()` throws.
PublishResult publish_made_up(const CacheStore& store, std::int64_t number,
                              EntrySync sync = EntrySync::yes);
/// The problem with what was found under `made_up_key(number)`; a miss without a reason is none.
[[nodiscard]] std::string problem_of(const CacheLookup& found, std::int64_t number);
/// As problem_of(), but a miss is a problem, too.
[[nodiscard]] std::string problem_of_hit(const CacheLookup& found, std::int64_t number);

[[nodiscard]] std::filesystem::path entry_path(const std::filesystem::path& root,
                                               std::string_view key);

/// Looks at all that is in a cache directory; nothing is removed or changed but damaged entries.
struct Audit {
  std::string problem;  ///< names that are not in the grammar, entries that are not right
  std::int64_t entries = 0;
  std::int64_t temporaries = 0;  ///< in tmp/, and unfinished tags
  std::int64_t damaged = 0;      ///< in damaged/
};
[[nodiscard]] Audit audit(const std::filesystem::path& root);

/// Makes all that is in tmp/ and damaged/ two weeks old, opens the cache, and says what is left
/// there. Empty if nothing is.
[[nodiscard]] std::string left_after_sweep(const std::filesystem::path& root);

/// Small matrices, and what their kernels have to compute.
class KernelCases {
 public:
  explicit KernelCases(int count);

  struct Outcome {
    std::string problem;  ///< empty: the kernel computed the right bits
    KernelInfo info;
  };
  /// Compiles one through the cache in `root` (as if by default: never refused), and runs it.
  [[nodiscard]] Outcome compile(const std::filesystem::path& root, std::int64_t number) const;
  [[nodiscard]] Outcome compile(const Compiler& compiler, std::int64_t number) const;
  /// The problem if the kernel must be in the cache.
  [[nodiscard]] std::string problem_of_hit(const std::filesystem::path& root,
                                           std::int64_t number) const;

  static constexpr std::int64_t k_columns = 16;  ///< n of every case
  [[nodiscard]] std::int64_t size() const noexcept {
    return static_cast<std::int64_t>(cases_.size());
  }

 private:
  struct Case {
    CsrMatrix matrix;
    std::vector<float> expected;
  };
  std::vector<Case> cases_;
};

}  // namespace spjit::test

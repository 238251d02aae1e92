#pragma once

/// @file
/// Everything that is done to a cache, each as one thing to be cut short or made to fail.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "fault_injector.hpp"
#include "fault_testing.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit::test {

/// The cache that every operation starts from: made-up entries 1, 2 and 3, kernel 0. Entry 3 is
/// damaged. In tmp/ and damaged/ is something of two weeks ago.
inline constexpr std::int64_t k_subject = 1;
inline constexpr std::int64_t k_bystander = 2;
inline constexpr std::int64_t k_damaged = 3;
inline constexpr std::int64_t k_new = 4;  ///< not there

/// A folder with such a cache, to be copied.
void make_template(const std::filesystem::path& root, const KernelCases& kernels);

struct OperationResult {
  std::string problem;  ///< something wrong was returned or thrown
  std::string excuse;   ///< what a CacheError or a kernel's note said
};

struct Operation {
  std::string name;
  bool starts_empty = false;  ///< the directory does not exist
  /// Made-up entries that are still there afterwards, whatever happened; if any, kernel 0 too.
  std::vector<std::int64_t> keeps = {};
  /// Entries that it reads: an error that may be the file's may set them aside.
  std::vector<std::int64_t> reads = {k_subject};
  /// Does it through a new CacheStore or Compiler. Never throws.
  std::function<OperationResult(const std::filesystem::path& root)> run;
  /// Names an entry that is missing without an excuse; may be null.
  std::function<std::string(const std::filesystem::path& root)> missing = {};
};

/// `kernels` is borrowed.
[[nodiscard]] std::vector<Operation> operations(const KernelCases& kernels);

/// An operation on a copy of the template, in a child, with one fault.
struct Trial {
  bool killed = false;
  OperationResult result;          ///< nothing if it was killed
  std::string call;                ///< the call that was hit; empty: there are fewer calls
  std::vector<FileEvent> journal;  ///< if the plan asked for it
};

struct Aftermath {
  std::string problem;
  std::int64_t temporaries = 0;  ///< what the operation left in tmp/, and unfinished tags
};

/// Walks over all calls that operations do.
class OperationWalk {
 public:
  OperationWalk();

  [[nodiscard]] const std::vector<Operation>& all() const noexcept { return operations_; }
  [[nodiscard]] const KernelCases& kernels() const noexcept { return kernels_; }
  [[nodiscard]] const std::filesystem::path& root() const noexcept { return root_; }

  /// Leaves the cache in `root()` as the operation left it.
  [[nodiscard]] Trial run(const Operation& operation, const FaultPlan& plan) const;

  /// Problems in `root()` afterwards: torn or lost entries, a cache that does not work any more.
  [[nodiscard]] Aftermath aftermath(const Operation& operation) const {
    return aftermath(operation, operation.keeps);
  }
  /// As above, with other entries to be kept.
  [[nodiscard]] Aftermath aftermath(const Operation& operation,
                                    const std::vector<std::int64_t>& keeps) const;

 private:
  testing_support::TemporaryDirectory scratch_;
  std::filesystem::path template_;
  std::filesystem::path root_;
  KernelCases kernels_;
  std::vector<Operation> operations_;
};

}  // namespace spjit::test

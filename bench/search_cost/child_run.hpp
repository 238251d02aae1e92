#pragma once

/// @file
/// Something measured in a process of its own: its memory is its own, and it can be stopped.

#include <cstdint>
#include <functional>
#include <string>

namespace spjit::bench {

/// Figures that work reports about itself.
struct WorkReport {
  double seconds = 0;  ///< from the plan to the code; of a search, from the matrix
  std::int64_t code_bytes = 0;
};

struct ChildRun {
  WorkReport report;
  std::int64_t peak_rss_bytes = 0;  ///< of the whole process
  double cpu_seconds = 0;           ///< user and system, all threads
  std::string failure = {};         ///< "over 120 s", what it threw, how it ended; or empty
  bool killed = false;              ///< it was over its time
};

/// Runs `work` in a forked child, which is killed after `limit_s`. The calling process must have
/// one thread. Throws Error if there can be no child.
[[nodiscard]] ChildRun run_in_child(const std::function<WorkReport()>& work, double limit_s);

}  // namespace spjit::bench

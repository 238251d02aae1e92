#pragma once

/// @file
/// Something measured in a process of its own: its memory is its own, and it can be stopped.

#include <cstdint>
#include <functional>
#include <string>

namespace spjit::bench {

struct ChildRun {
  double seconds = 0;            ///< what the work itself reported
  std::int64_t value = 0;        ///< the same: bytes of code, say
  std::int64_t peak_rss_bytes = 0;  ///< of the whole process
  double cpu_seconds = 0;        ///< user and system, all threads
  std::string failure;           ///< "over 120 s", "out of memory", what it threw; or empty
};

/// What work reports.
struct WorkReport {
  double seconds = 0;
  std::int64_t value = 0;
};

/// Runs `work` in a forked child, which is killed after `limit_s`. The calling process must have
/// one thread. Throws Error if there can be no child.
[[nodiscard]] ChildRun run_in_child(const std::function<WorkReport()>& work, double limit_s);

}  // namespace spjit::bench

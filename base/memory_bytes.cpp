#include "base/memory_bytes.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>

#include "base/fork_safe_mutex.hpp"

namespace spjit {
namespace {

/// What the process's group of processes may have, as containers limit it; no limit is the most.
std::int64_t group_memory_bytes() {
  // Version 2 and 1 of control groups, as a container sees its own.
  constexpr std::array k_files = {"/sys/fs/cgroup/memory.max",
                                  "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
  for (const char* name : k_files) {
    std::int64_t bytes = 0;
    if (std::ifstream(name) >> bytes && bytes > 0) return bytes;
  }
  return std::numeric_limits<std::int64_t>::max();
}

std::int64_t machine_memory_bytes() noexcept {
  const std::int64_t pages = ::sysconf(_SC_PHYS_PAGES);
  const std::int64_t page_bytes = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return std::numeric_limits<std::int64_t>::max();
  return pages * page_bytes;
}

}  // namespace

std::int64_t memory_bytes() {
  static constinit FoundOnce<std::int64_t> bytes;
  return bytes.get([] { return std::min(machine_memory_bytes(), group_memory_bytes()); });
}

}  // namespace spjit

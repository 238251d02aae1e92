#pragma once

/// @file
/// The faults of a cache that cannot be mended and were reported before.

#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "base/fork_safe_mutex.hpp"

namespace spjit {

/// Keys of entries that are of no use and stay where they are. Thread-safe.
class CacheReports {
 public:
  /// Whether this is the first time for `key`.
  bool first(std::string_view key) {
    const std::lock_guard lock(mutex_);
    return keys_.emplace(key).second;
  }

 private:
  ForkSafeMutex mutex_;
  std::set<std::string> keys_;
};

}  // namespace spjit

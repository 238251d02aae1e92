#pragma once

/// @file
/// Emptying the caches, so that what is timed next is as cold as between the layers of a network.

#include <atomic>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/host_cpu.hpp"
#include "base/thread_pool.hpp"

namespace spjit {

/// Fills the caches with data that nobody else wants. Each thread reads memory of its own, at least
/// four times the L2. Together they read twice the L3, but no more than a large network has. Or
/// with less, as a small network does.
class CacheFlush {
 public:
  /// Takes twice the L3 of memory, at most 128 MiB, 32 MiB where there is no L3; more where four
  /// times the L2 of each thread is more. `pool`: the threads whose caches are filled; null: the
  /// caller's alone. All of them together read `most_bytes` at most. Throws std::bad_alloc.
  CacheFlush(const HostCpu& cpu, ThreadPool* pool,
             std::int64_t most_bytes = std::numeric_limits<std::int64_t>::max());

  /// Bytes that one of so many threads overwrites.
  [[nodiscard]] static std::int64_t bytes_of_thread(const HostCpu& cpu, int threads);

  void flush();

  /// By all flushes together, counted from the contents: each word says how large it is.
  [[nodiscard]] std::int64_t bytes_read() const noexcept { return bytes_read_; }

 private:
  ThreadPool* pool_;
  std::vector<std::vector<std::int64_t>> words_;  ///< a thread each
  std::atomic<std::int64_t> bytes_read_ = 0;
};

}  // namespace spjit

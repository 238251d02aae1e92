#pragma once

/// @file
/// Keeping a thread on one CPU while it measures.

#include <sched.h>

#include <optional>

#include "base/thread_pool.hpp"

namespace spjit {

/// While it lives, the thread that made it stays on the CPU that it was on: moving to another one
/// would leave warm caches behind. Must be destroyed by the same thread. Where the system does not
/// let threads be pinned nothing happens. Threads started meanwhile inherit the pinning.
class PinnedThread {
 public:
  PinnedThread() noexcept;
  PinnedThread(const PinnedThread&) = delete;
  PinnedThread& operator=(const PinnedThread&) = delete;
  ~PinnedThread();

  [[nodiscard]] bool is_pinned() const noexcept { return pinned_; }

 private:
  cpu_set_t before_{};
  bool pinned_ = false;
};

/// This thread pinned, if nobody but it runs: a pool's workers would inherit it and share one CPU.
/// `pool`: the threads that run; null: this one.
[[nodiscard]] std::optional<PinnedThread> pinned_if_alone(const ThreadPool* pool) noexcept;

}  // namespace spjit

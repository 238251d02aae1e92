#pragma once

/// @file
/// Keeping a thread on one CPU while it measures.

#include <sched.h>

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

}  // namespace spjit

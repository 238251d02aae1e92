#include "base/pinned_thread.hpp"

#include <utility>

namespace spjit {

PinnedThread::PinnedThread() noexcept {
  const int cpu = sched_getcpu();
  if (cpu < 0 || cpu >= CPU_SETSIZE) return;
  if (sched_getaffinity(0, sizeof(before_), &before_) != 0) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(cpu), &one);
  pinned_ = sched_setaffinity(0, sizeof(one), &one) == 0;
}

PinnedThread::~PinnedThread() {
  // It was allowed before; should it not be any more, there is nothing to be done.
  if (pinned_) (void)sched_setaffinity(0, sizeof(before_), &before_);
}

std::optional<PinnedThread> pinned_if_alone(const ThreadPool* pool) noexcept {
  if (pool != nullptr && pool->threads() > 1) return std::nullopt;
  return std::optional<PinnedThread>(std::in_place);
}

}  // namespace spjit

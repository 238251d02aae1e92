// Runs of kernels in the threads of an OpenMP library that the process has already.

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "spjit.h"

namespace {

/// GOMP_parallel of GCC's and LLVM's libraries: calls function(data) in each of a team of threads.
using GompParallel = void (*)(void (*function)(void*), void* data, unsigned threads,
                              unsigned flags);

struct SharedLoop {
  spjit_task task;
  void* context;
  std::int32_t tasks;
  std::atomic<std::int32_t> next{0};
};

void take_tasks(void* data) {
  auto& loop = *static_cast<SharedLoop*>(data);
  for (std::int32_t i = loop.next++; i < loop.tasks; i = loop.next++) loop.task(loop.context, i);
}

/// A child of fork() has none of the team's threads, and OpenMP libraries wait for them.
std::atomic<bool> is_forked_child{false};  // NOLINT: what pthread_atfork() can reach

const int k_fork_watch_error = pthread_atfork(
    nullptr, nullptr, [] { is_forked_child.store(true, std::memory_order_relaxed); });

}  // namespace

/// An spjit_parallel_for whose `user` is a GompParallel. In a child of fork() one thread does all.
extern "C" __attribute__((visibility("default"))) void spjit_python_openmp_for(void* user,
                                                                               std::int32_t tasks,
                                                                               spjit_task task,
                                                                               void* context) {
  SharedLoop loop{task, context, tasks};
  if (k_fork_watch_error != 0 || is_forked_child.load(std::memory_order_relaxed)) {
    take_tasks(&loop);
    return;
  }
  const auto parallel = reinterpret_cast<GompParallel>(user);
  parallel(take_tasks, &loop, static_cast<unsigned>(tasks), 0);
}

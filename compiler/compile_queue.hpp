#pragma once

/// @file
/// The threads of compile_async().

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "compiler/compile_job.hpp"

namespace spjit {

/// Works jobs off in order. Threads are started when jobs come, stay, and are joined by whoever
/// lets the queue go last; every job is over by then, as those who hold one hold its queue too.
class CompileQueue {
 public:
  /// `most_threads` >= 1. Starts none yet.
  explicit CompileQueue(int most_threads);
  CompileQueue(const CompileQueue&) = delete;
  CompileQueue& operator=(const CompileQueue&) = delete;
  ~CompileQueue();

  /// Throws Error if there is no thread and none can be started.
  void add(std::shared_ptr<CompileJob> job);

 private:
  /// What the threads look at. They hold it themselves: a callback of the user's may let the queue
  /// go in one of them.
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::shared_ptr<CompileJob>> jobs;
    std::size_t idle = 0;  ///< threads that wait
    bool closed = false;
  };

  static void work(Shared& shared);
  void start_thread();

  std::size_t most_threads_;
  int owner_pid_;
  std::shared_ptr<Shared> shared_;
  // Behind a pointer so that a forked child can leak it instead of joining threads it lacks.
  std::unique_ptr<std::vector<std::thread>> threads_;
};

}  // namespace spjit

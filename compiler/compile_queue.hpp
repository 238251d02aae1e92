#pragma once

/// @file
/// The compilations of compile_async(), and the threads that they run in.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "base/cancel.hpp"
#include "base/fork_safe_mutex.hpp"
#include "spjit/compilation.hpp"
#include "spjit/compiler.hpp"

namespace spjit {

/// Waits in a queue, runs in one of its threads, is over. A job that nobody has begun is over as
/// soon as it is cancelled or its deadline has passed: whoever looks at it sees to that, so no
/// thread is needed for it. What it compiles, and the callback, are let go before it is over.
/// Thread-safe.
class CompileJob {
 public:
  /// Compiles; the result is a kernel that the caller casts back.
  using Work = std::function<std::shared_ptr<const void>(const CompileControl&)>;

  CompileJob(Work work, CompileControl control);
  CompileJob(const CompileJob&) = delete;
  CompileJob& operator=(const CompileJob&) = delete;

  /// Does the work in this thread, unless the job is over already.
  void run();

  void cancel();

  /// Waits until it is over or `until` has come; whether it is over.
  bool wait(std::optional<std::chrono::steady_clock::time_point> until);

  /// Waits for the kernel, or throws what the work threw.
  [[nodiscard]] std::shared_ptr<const void> result();

  [[nodiscard]] CompileProgress progress();

  /// Whether this thread is just doing the work.
  [[nodiscard]] bool runs_here() const;

 private:
  enum class State : std::uint8_t { queued, running, over };

  struct Outcome {
    std::shared_ptr<const void> kernel;
    std::exception_ptr error;
  };

  void settle();
  [[nodiscard]] Outcome compile(const Work& work, CompileControl control);
  void note(const SearchProgress& progress);
  void finish(Outcome outcome);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::queued;
  std::thread::id runner_;
  Work work_;
  std::function<void(const SearchProgress&)> callback_;
  std::stop_source stop_;
  Cancellation cancel_;
  CompileProgress progress_;
  Outcome outcome_;
  /// Last: it may call cancel() from its constructor on, until it is gone.
  std::stop_callback<std::function<void()>> forward_;
};

/// The threads of a queue, in one process.
class CompileThreads {
 public:
  explicit CompileThreads(std::size_t most);
  CompileThreads(const CompileThreads&) = delete;
  CompileThreads& operator=(const CompileThreads&) = delete;
  ~CompileThreads();

  void add(std::shared_ptr<CompileJob> job);

 private:
  /// State that the threads share. They hold it themselves: a callback of the user's may let the
  /// queue go in one of them.
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::shared_ptr<CompileJob>> jobs;
    std::size_t idle = 0;  ///< threads that wait
    bool closed = false;
  };

  static void work(Shared& shared);
  void start_thread();

  std::size_t most_;
  std::shared_ptr<Shared> shared_;
  std::vector<std::thread> threads_;
};

/// Works jobs off in order. Threads are started when jobs come, stay, and are joined by whoever
/// lets the queue go last; every job is over by then, as those who hold one hold its queue too. A
/// child of fork() has threads of its own; jobs of its parent are never over there.
class CompileQueue {
 public:
  /// `most_threads` >= 1. Starts none yet.
  explicit CompileQueue(int most_threads);

  /// Throws Error if there is no thread and none can be started.
  void add(std::shared_ptr<CompileJob> job) { threads_.get().add(std::move(job)); }

 private:
  PerProcess<CompileThreads> threads_;
};

}  // namespace spjit

#pragma once

/// @file
/// Threads that kernels run in: a small pool for kernels that run for a few microseconds, or the
/// caller's.
///
/// Why a pool, and not OpenMP: kernels of 5 to 500 us need workers that are still awake for the
/// next one. OpenMP run times spin for 100 ms to infinity by default, and a library must not burn
/// its host's cores for so long. Their spin time, thread count and affinity are settings of the
/// whole process, which belong to the application. libgomp is also unusable in a child after
/// fork(). This pool spins for a bounded, stated time, keeps no global state, and a run allocates
/// nothing.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "base/function_ref.hpp"
#include "spjit/parallel_for.hpp"

namespace spjit {

/// How long a worker without work, or a caller whose last tasks run elsewhere, spins before it
/// parks on a futex. A parked worker costs one system call to wake: 5 to 50 us until it runs, on a
/// virtual machine over 100. Layers of a network that follow one another should find it awake, also
/// where it had less to do than others. ResNet-50 at 90 %, two threads over one: 1.13 to 1.32 with
/// 30 us, 1.28 to 1.39 with 100 us, 1.35 to 1.48 with 300 us.
inline constexpr std::chrono::nanoseconds k_pool_spin = std::chrono::microseconds(300);

/// The most threads that a pool has.
inline constexpr int k_most_threads = 4096;

/// A pool of threads() threads.
class ThreadPool {
 public:
  /// Runs task `task` as worker `worker`, 0 <= worker < threads(). The worker number is unique
  /// among the calls that one `run()` has in flight (an index into scratch that belongs to that
  /// run), not across concurrent runs.
  using Task = FunctionRef<void(int task, int worker)>;

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  /// Precondition: no run is in progress.
  virtual ~ThreadPool() = default;

  [[nodiscard]] int threads() const noexcept { return threads_; }

  /// Calls `task(0, w) ... task(tasks - 1, w)`, each once, started in ascending order on whichever
  /// thread is free; returns when all are done. `tasks` <= 0 does nothing. The first exception is
  /// rethrown here; tasks not started by then are skipped. Legal from several threads and from
  /// inside a task.
  virtual void run(int tasks, Task task) = 0;

 protected:
  /// Throws InvalidArgument unless 1 <= threads <= 4096.
  explicit ThreadPool(int threads);

 private:
  int threads_;
};

/// `threads` in those of `parallel_for`, which takes so many tasks at most; if that is empty, in
/// own ones. Null for one own thread: then the caller's is enough. Throws as WorkerPool.
[[nodiscard]] std::shared_ptr<ThreadPool> make_thread_pool(int threads, ParallelFor parallel_for);

/// `threads` - 1 worker threads plus whoever calls `run()`. Not movable: workers refer to it.
///
/// After fork() the child has no workers: its runs still complete, on the calling thread alone,
/// provided no run was in progress in the parent at the time of the fork.
class WorkerPool final : public ThreadPool {
 public:
  /// Throws InvalidArgument unless 1 <= threads <= 4096, Error if threads cannot be started.
  /// `spin` is taken as zero if there are more threads than CPUs to run them on.
  explicit WorkerPool(int threads, std::chrono::nanoseconds spin = k_pool_spin);
  ~WorkerPool() override;

  /// The caller is worker 0. Whoever finds the pool busy runs all its tasks itself, as worker 0.
  /// Allocates nothing (exceptions aside).
  void run(int tasks, Task task) override;

 private:
  void start_workers();
  void stop_workers() noexcept;
  void work(int worker);
  void drain(int worker) noexcept;
  void finish(int count) noexcept;
  void await_epoch(std::uint32_t seen) const noexcept;
  void await_finished() const noexcept;

  std::chrono::nanoseconds spin_;
  int owner_pid_;

  std::atomic<bool> busy_ = false;
  const Task* task_ = nullptr;  // written before, read after a claim on remaining_
  int tasks_ = 0;               // as task_
  std::exception_ptr error_;    // written by whoever sets failed_
  std::atomic<bool> failed_ = false;
  std::atomic<bool> stopping_ = false;

  // Each on a cache line of its own: spinning on one must not slow down the others.
  alignas(64) std::atomic<int> remaining_ = 0;        // tasks nobody has claimed
  alignas(64) std::atomic<int> unfinished_ = 0;       // tasks claimed or not, but not done
  alignas(64) std::atomic<std::uint32_t> epoch_ = 0;  // counts runs; workers park on it

  // Behind a pointer so that a forked child can leak it instead of joining threads it lacks.
  std::unique_ptr<std::vector<std::thread>> workers_;
};

}  // namespace spjit

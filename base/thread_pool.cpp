#include "base/thread_pool.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/host_cpu.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

constexpr int k_polls_per_clock_read = 32;

void pause_cpu() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Polls until `done()` or for about `spin`.
template <class Done>
bool spin_until(const Done& done, std::chrono::nanoseconds spin) noexcept {
  if (done()) return true;
  if (spin <= std::chrono::nanoseconds::zero()) return false;
  const auto deadline = std::chrono::steady_clock::now() + spin;
  do {
    for (int i = 0; i < k_polls_per_clock_read; ++i) {
      if (done()) return true;
      pause_cpu();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

/// `threads` if it is in range; runs before any member depends on it.
int checked(int threads) {
  if (threads < 1 || threads > k_most_threads) {
    throw InvalidArgument(
        fmt::format("thread pool of {} threads: expected 1 .. {}", threads, k_most_threads));
  }
  return threads;
}

/// One run in threads that do not number themselves: each call of the caller's loop is a worker,
/// and takes tasks while there are any.
class BorrowedRun {
 public:
  BorrowedRun(int tasks, const ThreadPool::Task& task) : tasks_(tasks), task_(task) {}

  void work(int worker) noexcept {
    for (int task = next_++; task < tasks_; task = next_++) {
      try {
        task_(task, worker);
      } catch (...) {
        if (!failed_.exchange(true)) error_ = std::current_exception();
        next_ = tasks_;
      }
    }
  }

  /// After the loop has returned.
  void finish() {
    work(0);  // a loop that left out some
    if (error_) std::rethrow_exception(error_);
  }

 private:
  int tasks_;
  const ThreadPool::Task& task_;
  std::atomic<int> next_ = 0;  // never more than tasks_ and one for each worker
  std::atomic<bool> failed_ = false;
  std::exception_ptr error_;  // written by whoever sets failed_
};

class BorrowedPool final : public ThreadPool {
 public:
  BorrowedPool(int threads, ParallelFor parallel_for)
      : ThreadPool(threads), parallel_for_(std::move(parallel_for)) {}

  void run(int tasks, Task task) override {
    BorrowedRun run(tasks, task);
    const int workers = std::min(tasks, threads());
    if (workers > 1) {
      parallel_for_(
          workers,
          [](void* context, int worker) { static_cast<BorrowedRun*>(context)->work(worker); },
          &run);
    }
    run.finish();
  }

 private:
  ParallelFor parallel_for_;
};

}  // namespace

std::shared_ptr<ThreadPool> make_thread_pool(int threads, ParallelFor parallel_for) {
  if (parallel_for) return std::make_shared<BorrowedPool>(threads, std::move(parallel_for));
  return threads > 1 ? std::make_shared<WorkerPool>(threads) : nullptr;
}

ThreadPool::ThreadPool(int threads) : threads_(checked(threads)) {}

WorkerPool::WorkerPool(int threads, std::chrono::nanoseconds spin)
    : ThreadPool(threads),
      spin_(threads > usable_cpus() ? std::chrono::nanoseconds::zero() : spin),
      owner_pid_(::getpid()),
      workers_(std::make_unique<std::vector<std::thread>>()) {
  start_workers();
}

WorkerPool::~WorkerPool() {
  if (::getpid() != owner_pid_) {
    // A forked child: the threads are not here, and joining them would never return.
    static_cast<void>(workers_.release());
    return;
  }
  stop_workers();
}

void WorkerPool::start_workers() {
  workers_->reserve(static_cast<std::size_t>(threads() - 1));
  try {
    for (int worker = 1; worker < threads(); ++worker) {
      workers_->emplace_back([this, worker] { work(worker); });
    }
  } catch (const std::system_error& error) {
    const std::size_t started = workers_->size();
    stop_workers();
    throw Error(
        fmt::format("thread pool of {} threads: only {} could be started ({}); ask for "
                    "fewer threads or raise the limit (ulimit -u)",
                    threads(), started + 1, error.what()));
  }
}

void WorkerPool::stop_workers() noexcept {
  stopping_.store(true, std::memory_order_release);
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (std::thread& worker : *workers_) worker.join();
}

void WorkerPool::run(int tasks, Task task) {
  if (tasks <= 0) return;
  if (tasks == 1 || threads() == 1 || busy_.exchange(true, std::memory_order_acquire)) {
    for (int i = 0; i < tasks; ++i) task(i, 0);
    return;
  }
  task_ = &task;
  tasks_ = tasks;
  failed_.store(false, std::memory_order_relaxed);
  unfinished_.store(tasks, std::memory_order_relaxed);
  // Publishes everything above: a worker touches it only after claiming from remaining_.
  remaining_.store(tasks, std::memory_order_release);
  epoch_.fetch_add(1);
  epoch_.notify_all();
  drain(0);
  await_finished();
  const std::exception_ptr error = std::exchange(error_, nullptr);
  busy_.store(false, std::memory_order_release);
  if (error) std::rethrow_exception(error);
}

void WorkerPool::work(int worker) {
  while (true) {
    // Read before looking for tasks: a run published after this line ends the wait below.
    const std::uint32_t seen = epoch_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_acquire)) return;
    drain(worker);
    await_epoch(seen);
  }
}

void WorkerPool::drain(int worker) noexcept {
  int left = remaining_.load(std::memory_order_relaxed);
  while (left > 0) {
    // A late worker may compare against a count of an earlier run. That is harmless: if the claim
    // succeeds there is such a task now, and task_ is read only after it.
    if (!remaining_.compare_exchange_weak(left, left - 1, std::memory_order_acquire,
                                          std::memory_order_relaxed)) {
      continue;
    }
    int finished = 1;
    try {
      (*task_)(tasks_ - left, worker);
    } catch (...) {
      if (!failed_.exchange(true, std::memory_order_relaxed)) error_ = std::current_exception();
      finished += remaining_.exchange(0, std::memory_order_relaxed);
    }
    finish(finished);
    left = remaining_.load(std::memory_order_relaxed);
  }
}

void WorkerPool::finish(int count) noexcept {
  if (unfinished_.fetch_sub(count) == count) unfinished_.notify_one();
}

void WorkerPool::await_epoch(std::uint32_t seen) const noexcept {
  const auto changed = [&] { return epoch_.load(std::memory_order_acquire) != seen; };
  if (!spin_until(changed, spin_)) epoch_.wait(seen, std::memory_order_acquire);
}

void WorkerPool::await_finished() const noexcept {
  const auto done = [&] { return unfinished_.load(std::memory_order_acquire) == 0; };
  if (spin_until(done, spin_)) return;
  int left = unfinished_.load(std::memory_order_acquire);
  while (left != 0) {
    unfinished_.wait(left, std::memory_order_acquire);
    left = unfinished_.load(std::memory_order_acquire);
  }
}

}  // namespace spjit

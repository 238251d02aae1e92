#include "base/thread_pool.hpp"

#include <fmt/format.h>
#include <unistd.h>

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

}  // namespace

ThreadPool::ThreadPool(int threads, std::chrono::nanoseconds spin)
    : threads_(checked(threads)),
      spin_(threads > usable_cpus() ? std::chrono::nanoseconds::zero() : spin),
      owner_pid_(::getpid()),
      workers_(std::make_unique<std::vector<std::thread>>()) {
  start_workers();
}

ThreadPool::~ThreadPool() {
  if (::getpid() != owner_pid_) {
    // A forked child: the threads are not here, and joining them would never return.
    static_cast<void>(workers_.release());
    return;
  }
  stop_workers();
}

void ThreadPool::start_workers() {
  workers_->reserve(static_cast<std::size_t>(threads_ - 1));
  try {
    for (int worker = 1; worker < threads_; ++worker) {
      workers_->emplace_back([this, worker] { work(worker); });
    }
  } catch (const std::system_error& error) {
    const std::size_t started = workers_->size();
    stop_workers();
    throw Error(
        fmt::format("thread pool of {} threads: only {} could be started ({}); ask for "
                    "fewer threads or raise the limit (ulimit -u)",
                    threads_, started + 1, error.what()));
  }
}

void ThreadPool::stop_workers() noexcept {
  stopping_.store(true, std::memory_order_release);
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (std::thread& worker : *workers_) worker.join();
}

void ThreadPool::run(int tasks, Task task) {
  if (tasks <= 0) return;
  if (tasks == 1 || threads_ == 1 || busy_.exchange(true, std::memory_order_acquire)) {
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

void ThreadPool::work(int worker) {
  while (true) {
    // Read before looking for tasks: a run published after this line ends the wait below.
    const std::uint32_t seen = epoch_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_acquire)) return;
    drain(worker);
    await_epoch(seen);
  }
}

void ThreadPool::drain(int worker) noexcept {
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

void ThreadPool::finish(int count) noexcept {
  if (unfinished_.fetch_sub(count) == count) unfinished_.notify_one();
}

void ThreadPool::await_epoch(std::uint32_t seen) const noexcept {
  const auto changed = [&] { return epoch_.load(std::memory_order_acquire) != seen; };
  if (!spin_until(changed, spin_)) epoch_.wait(seen, std::memory_order_acquire);
}

void ThreadPool::await_finished() const noexcept {
  const auto done = [&] { return unfinished_.load(std::memory_order_acquire) == 0; };
  if (spin_until(done, spin_)) return;
  int left = unfinished_.load(std::memory_order_acquire);
  while (left != 0) {
    unfinished_.wait(left, std::memory_order_acquire);
    left = unfinished_.load(std::memory_order_acquire);
  }
}

}  // namespace spjit

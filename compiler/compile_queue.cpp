#include "compiler/compile_queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "spjit/error.hpp"

namespace spjit {

CompileQueue::CompileQueue(int most_threads)
    : threads_([most = static_cast<std::size_t>(most_threads)] {
        return std::make_unique<CompileThreads>(most);
      }) {}

CompileThreads::CompileThreads(std::size_t most)
    : most_(most), shared_(std::make_shared<Shared>()) {}

CompileThreads::~CompileThreads() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->closed = true;
  }
  shared_->changed.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
    } else {
      thread.join();
    }
  }
}

void CompileThreads::add(std::shared_ptr<CompileJob> job) {
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->idle <= shared_->jobs.size() && threads_.size() < most_) start_thread();
    shared_->jobs.push_back(std::move(job));
  }
  shared_->changed.notify_one();
}

void CompileThreads::start_thread() {
  try {
    threads_.emplace_back([shared = shared_] { work(*shared); });
  } catch (const std::system_error& error) {
    if (!threads_.empty()) return;  // it takes longer with fewer
    throw Error(fmt::format(
        "no thread could be started to compile in ({}); raise the limit (ulimit -u), or compile in "
        "a thread of your own",
        error.what()));
  }
}

void CompileThreads::work(Shared& shared) {
  std::unique_lock lock(shared.mutex);
  while (true) {
    ++shared.idle;
    shared.changed.wait(lock, [&] { return shared.closed || !shared.jobs.empty(); });
    --shared.idle;
    if (shared.jobs.empty()) return;
    std::shared_ptr<CompileJob> job = std::move(shared.jobs.front());
    shared.jobs.pop_front();
    lock.unlock();
    job->run();
    job.reset();
    lock.lock();
  }
}

CompileJob::CompileJob(Work work, CompileControl control)
    : work_(std::move(work)),
      callback_(std::move(control.progress)),
      cancel_{control.deadline, stop_.get_token()},
      forward_(std::move(control.stop), [this] { cancel(); }) {}

void CompileJob::run() {
  settle();
  Work work;
  CompileControl control;
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::queued) return;
    state_ = State::running;
    runner_ = std::this_thread::get_id();
    work = std::exchange(work_, nullptr);
    control.stop = cancel_.stop;
    control.deadline = cancel_.deadline;
    control.progress = std::exchange(callback_, nullptr);
  }
  Outcome outcome = compile(work, std::move(control));
  work = nullptr;
  finish(std::move(outcome));
}

CompileJob::Outcome CompileJob::compile(const Work& work, CompileControl control) {
  control.progress = [this, callback = std::move(control.progress)](const SearchProgress& now) {
    note(now);
    if (callback) callback(now);
  };
  try {
    return {work(control), nullptr};
  } catch (...) {
    return {nullptr, std::current_exception()};
  }
}

void CompileJob::note(const SearchProgress& progress) {
  const std::lock_guard lock(mutex_);
  progress_ = {std::string(progress.stage), progress.done,    progress.total,
               std::string(progress.best),  progress.best_us, progress.seconds_left};
}

void CompileJob::finish(Outcome outcome) {
  const std::lock_guard lock(mutex_);
  outcome_ = std::move(outcome);
  progress_ = {};
  progress_.stage = "done";
  state_ = State::over;
  runner_ = {};
  changed_.notify_all();
}

void CompileJob::settle() {
  Work work;
  std::function<void(const SearchProgress&)> callback;  // both go without the lock
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::queued || !cancel_.reached()) return;
    state_ = State::running;
    runner_ = std::this_thread::get_id();
    work = std::exchange(work_, nullptr);
    callback = std::exchange(callback_, nullptr);
  }
  work = nullptr;
  callback = nullptr;
  try {
    cancel_.check();
  } catch (...) {
    finish({nullptr, std::current_exception()});
  }
}

void CompileJob::cancel() {
  stop_.request_stop();
  settle();
}

bool CompileJob::wait(std::optional<std::chrono::steady_clock::time_point> until) {
  while (true) {
    settle();
    std::unique_lock lock(mutex_);
    if (state_ == State::over) return true;
    if (until && std::chrono::steady_clock::now() >= *until) return false;
    std::optional<std::chrono::steady_clock::time_point> next = until;
    if (state_ == State::queued && cancel_.deadline) {
      next = std::min(until.value_or(*cancel_.deadline), *cancel_.deadline);
    }
    const auto is_over = [this] { return state_ == State::over; };
    if (next) {
      changed_.wait_until(lock, *next, is_over);
    } else {
      changed_.wait(lock, is_over);
    }
  }
}

std::shared_ptr<const void> CompileJob::result() {
  wait(std::nullopt);
  const std::lock_guard lock(mutex_);
  if (outcome_.error) std::rethrow_exception(outcome_.error);
  return outcome_.kernel;
}

CompileProgress CompileJob::progress() {
  settle();
  const std::lock_guard lock(mutex_);
  return progress_;
}

bool CompileJob::runs_here() const {
  const std::lock_guard lock(mutex_);
  return runner_ == std::this_thread::get_id();
}

}  // namespace spjit

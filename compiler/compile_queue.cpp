#include "compiler/compile_queue.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <system_error>
#include <utility>

#include "spjit/error.hpp"

namespace spjit {

CompileQueue::CompileQueue(int most_threads)
    : most_threads_(static_cast<std::size_t>(most_threads)),
      owner_pid_(::getpid()),
      shared_(std::make_shared<Shared>()),
      threads_(std::make_unique<std::vector<std::thread>>()) {}

CompileQueue::~CompileQueue() {
  if (::getpid() != owner_pid_) {
    static_cast<void>(threads_.release());
    return;
  }
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->closed = true;
  }
  shared_->changed.notify_all();
  for (std::thread& thread : *threads_) {
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
    } else {
      thread.join();
    }
  }
}

void CompileQueue::add(std::shared_ptr<CompileJob> job) {
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->idle <= shared_->jobs.size() && threads_->size() < most_threads_) start_thread();
    shared_->jobs.push_back(std::move(job));
  }
  shared_->changed.notify_one();
}

void CompileQueue::start_thread() {
  try {
    threads_->emplace_back([shared = shared_] { work(*shared); });
  } catch (const std::system_error& error) {
    if (!threads_->empty()) return;  // it takes longer with fewer
    throw Error(fmt::format(
        "no thread could be started to compile in ({}); raise the limit (ulimit -u), or compile in "
        "a thread of your own",
        error.what()));
  }
}

void CompileQueue::work(Shared& shared) {
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

}  // namespace spjit

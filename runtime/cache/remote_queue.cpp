#include "runtime/cache/remote_queue.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <thread>
#include <utility>

#include "runtime/cache/remote_cache.hpp"
#include "spjit/error.hpp"

namespace spjit {

class RemoteQueue::Worker {
 public:
  Worker(std::shared_ptr<const RemoteServer> server, CacheStore store)
      : server_(std::move(server)), store_(std::move(store)) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    thread_ = std::jthread();  // stops and waits
    drop(waiting_.size());
  }

  void add(std::string_view key, std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    const bool fits =
        waiting_.empty() || waiting_bytes_ + bytes <= server_->settings().most_waiting_bytes;
    if (!fits || is_refused_) {
      drop(1);
      return;
    }
    waiting_.push_back({.key = std::string(key), .bytes = bytes});
    waiting_bytes_ += bytes;
    if (!thread_.joinable()) {
      thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
    }
    changed_.notify_all();
  }

  bool flush(const Cancellation& cancel) {
    constexpr auto k_step = std::chrono::milliseconds(20);
    std::unique_lock lock(mutex_);
    while (!waiting_.empty() || is_busy_) {
      if (cancel.reached()) return false;
      changed_.wait_for(lock, k_step);
    }
    return true;
  }

  std::string take_reports() {
    const std::lock_guard lock(mutex_);
    return std::exchange(reports_, {});
  }

 private:
  struct Waiting {
    std::string key;
    std::int64_t bytes = 0;
  };

  void drop(std::size_t count) const {
    server_->count(
        [&](RemoteCounts& counts) { counts.dropped += static_cast<std::int64_t>(count); });
  }

  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, stop, [&] { return !waiting_.empty(); });
      if (stop.stop_requested()) return;
      const std::string key = waiting_.front().key;
      is_busy_ = true;
      lock.unlock();
      const std::optional<RemotePutResult> result = push(key, stop);
      lock.lock();
      is_busy_ = false;
      if (!result) return;  // told to stop: it is dropped with those that wait
      waiting_bytes_ -= waiting_.front().bytes;
      waiting_.pop_front();
      if (result->outcome == RemotePut::failed) report(*result);
      changed_.notify_all();
    }
  }

  /// Nothing if it was told to stop.
  [[nodiscard]] std::optional<RemotePutResult> push(const std::string& key,
                                                    const std::stop_token& stop) const {
    try {
      return push_entry(*server_, store_, key, {.deadline = {}, .stop = stop});
    } catch (const Cancelled&) {
      return std::nullopt;
    } catch (const std::exception& error) {
      return RemotePutResult{
          .outcome = RemotePut::failed, .problem = error.what(), .kind = "entry"};
    }
  }

  /// Under the lock.
  void report(const RemotePutResult& result) {
    if (result.is_final && !is_refused_) {
      is_refused_ = true;
      drop(waiting_.size());
      waiting_.clear();
      waiting_bytes_ = 0;
    }
    if (!said_.insert(result.kind).second) return;
    reports_ += (reports_.empty() ? "" : "; ") + result.problem;
  }

  std::shared_ptr<const RemoteServer> server_;
  CacheStore store_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Waiting> waiting_;  ///< the first is being written if `is_busy_`
  std::int64_t waiting_bytes_ = 0;
  bool is_busy_ = false;
  bool is_refused_ = false;
  std::set<std::string> said_;
  std::string reports_;
  std::jthread thread_;
};

RemoteQueue::RemoteQueue(std::shared_ptr<const RemoteServer> server, CacheStore store)
    : worker_(std::make_unique<PerProcess<Worker>>(
          [server = std::move(server), store = std::move(store)] {
            return std::make_unique<Worker>(server, store);
          })) {}

RemoteQueue::~RemoteQueue() = default;

void RemoteQueue::add(std::string_view key, std::int64_t bytes) const noexcept {
  try {
    worker_->get().add(key, bytes);
  } catch (const std::exception&) {
    // Out of memory or threads: it is not written.
  }
}

bool RemoteQueue::flush(const Cancellation& cancel) const { return worker_->get().flush(cancel); }

std::string RemoteQueue::take_reports() const { return worker_->get().take_reports(); }

}  // namespace spjit

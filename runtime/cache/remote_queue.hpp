#pragma once

/// @file
/// Entries on their way to a server, in the background.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/cancel.hpp"
#include "base/fork_safe_mutex.hpp"
#include "runtime/cache/cache_store.hpp"
#include "runtime/cache/remote_server.hpp"

namespace spjit {

/// One thread, which begins with the first entry, writes one entry after the other. Its end drops
/// those that wait and gives up the one under way. A child of fork() begins with none. Thread-safe.
class RemoteQueue {
 public:
  RemoteQueue(std::shared_ptr<const RemoteServer> server, CacheStore store);
  RemoteQueue(const RemoteQueue&) = delete;
  RemoteQueue& operator=(const RemoteQueue&) = delete;
  ~RemoteQueue();

  /// Drops it if too many bytes wait already, and where the server takes nothing from us. Throws
  /// nothing.
  void add(std::string_view key, std::int64_t bytes) const noexcept;

  /// Waits until nothing waits. False if `cancel` was reached before.
  bool flush(const Cancellation& cancel) const;

  /// Failures since the last call, each kind once; empty if none.
  [[nodiscard]] std::string take_reports() const;

 private:
  class Worker;
  std::unique_ptr<PerProcess<Worker>> worker_;
};

}  // namespace spjit

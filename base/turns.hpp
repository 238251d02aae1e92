#pragma once

/// @file
/// Who may go on now, of several threads that want to.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

#include "base/cancel.hpp"

namespace spjit {

/// Waits until `ready()` holds, which is asked under the lock, or `cancel` is reached. Returns what
/// `ready()` says then. Whoever changes what it looks at must notify.
template <class Ready>
bool wait_until_ready(std::condition_variable_any& changed, std::unique_lock<std::mutex>& lock,
                      const Cancellation& cancel, const Ready& ready) {
  if (cancel.deadline) return changed.wait_until(lock, cancel.stop, *cancel.deadline, ready);
  return changed.wait(lock, cancel.stop, ready);
}

/// A number of places, which are given out in the order in which they are asked for. Thread-safe.
class Turns {
 public:
  /// `places` >= 1.
  explicit Turns(int places) : free_(places) {}
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  struct GiveBack {
    void operator()(Turns* turns) const noexcept { turns->give_back(); }
  };
  /// A place; it is given back when this goes.
  using Place = std::unique_ptr<Turns, GiveBack>;

  /// Waits for a place. Throws what `cancel` throws.
  [[nodiscard]] Place take(const Cancellation& cancel);

  /// A place if one is free and nobody waits; else null.
  [[nodiscard]] Place try_take();

  /// Threads that wait for a place.
  [[nodiscard]] std::size_t waiting() const;

 private:
  void give_back() noexcept;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  int free_;
  std::uint64_t next_ticket_ = 0;
  std::list<std::uint64_t> waiting_;  ///< tickets, first come first
};

}  // namespace spjit

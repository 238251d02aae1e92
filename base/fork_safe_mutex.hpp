#pragma once

/// @file
/// A mutex and data for threads where one may call fork(): a child has only that thread.

#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace spjit {

/// A mutex that is free in a child of fork(): fork() waits until it is, and holds it meanwhile. A
/// plain one that another thread held stays locked there for ever. To be held for a moment: who
/// holds one must not fork, nor lock, make or destroy another one.
class ForkSafeMutex {
 public:
  ForkSafeMutex();
  ForkSafeMutex(const ForkSafeMutex&) = delete;
  ForkSafeMutex& operator=(const ForkSafeMutex&) = delete;
  ~ForkSafeMutex();

  void lock() { mutex_.lock(); }
  void unlock() noexcept { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

/// A constant that is found out when it is first asked for, without a lock. With a lock, as a
/// `static` of a function has it, a child of fork() could wait for ever for a thread that was
/// finding it. Threads that ask at once may each find it out; all get the same one. It is never
/// destroyed. Declare it `static constinit`. Thread-safe.
template <class Value>
class FoundOnce {
 public:
  constexpr FoundOnce() = default;
  FoundOnce(const FoundOnce&) = delete;
  FoundOnce& operator=(const FoundOnce&) = delete;

  /// `find` returns it. Throws what that throws; then the next caller tries.
  template <class Find>
  [[nodiscard]] const Value& get(const Find& find) {
    const Value* known = value_.load(std::memory_order_acquire);
    if (known != nullptr) return *known;
    auto mine = std::make_unique<const Value>(find());
    if (!value_.compare_exchange_strong(known, mine.get(), std::memory_order_acq_rel))
      return *known;
    return *mine.release();
  }

 private:
  std::atomic<const Value*> value_ = nullptr;
};

/// A value that threads wait for each other with, made anew in a child of fork(): those that held
/// something of it are not there. A child leaks its parent's, as some wait in it for ever.
/// Thread-safe.
template <class Value>
class PerProcess {
 public:
  using Make = std::function<std::unique_ptr<Value>()>;

  explicit PerProcess(Make make) : make_(std::move(make)), current_(made().release()) {}
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;
  ~PerProcess() {
    const Owned* last = current_.load(std::memory_order_acquire);
    if (last->pid == ::getpid()) delete last;
  }

  [[nodiscard]] Value& get() const {
    const Owned* seen = current_.load(std::memory_order_acquire);
    while (seen->pid != ::getpid()) {
      std::unique_ptr<const Owned> mine = made();
      if (current_.compare_exchange_strong(seen, mine.get(), std::memory_order_acq_rel)) {
        seen = mine.release();
      }
    }
    return *seen->value;
  }

 private:
  struct Owned {
    pid_t pid;
    std::unique_ptr<Value> value;
  };

  [[nodiscard]] std::unique_ptr<const Owned> made() const {
    return std::make_unique<const Owned>(Owned{::getpid(), make_()});
  }

  Make make_;
  mutable std::atomic<const Owned*> current_;
};

}  // namespace spjit

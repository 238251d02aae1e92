#pragma once

/// @file
/// Work that several threads ask for and one of them does.

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/cancel.hpp"
#include "base/turns.hpp"

namespace spjit {

/// A function that throws a copy of `error` if that is one every compilation of the same key would
/// end with: CompileFailed, VerificationFailed, NotSupported, InvalidArgument, DeviceError. Empty
/// for all others, such as being cancelled. A copy, because threads must not share an exception.
[[nodiscard]] std::function<void()> repeat_error(const std::exception_ptr& error);

/// At most one thread at a time makes the `Result` of a key; whoever asks for it meanwhile waits
/// and gets the same one. Results are not kept. Thread-safe.
template <class Result>
class SingleFlight {
 public:
  /// Returns the result of `make()`, called here or by the thread that is already at it. If that
  /// one fails, all fail alike (repeat_error()), unless the reason is its own: then one of those
  /// waiting takes over. Waiting ends with what `cancel` throws; `make` looks at it by itself.
  /// `on_wait` is called before waiting. A `make` must not ask for its own key.
  template <class Make, class OnWait>
  [[nodiscard]] std::shared_ptr<Result> run(const std::string& key, const Cancellation& cancel,
                                            const Make& make, const OnWait& on_wait) {
    while (true) {
      std::shared_ptr<Flight> flight;
      const bool first = join(key, flight);
      if (first) return lead(key, *flight, make);
      on_wait();
      std::unique_lock lock(mutex_);
      if (!wait_until_ready(changed_, lock, cancel, [&] { return flight->done; })) {
        lock.unlock();
        cancel.check();
        continue;
      }
      if (flight->result != nullptr) return flight->result;
      if (flight->fail) {
        const std::function<void()> fail = flight->fail;
        lock.unlock();
        fail();
      }
    }
  }

 private:
  struct Flight {
    bool done = false;
    std::shared_ptr<Result> result;
    std::function<void()> fail;
  };

  /// Whether nobody was at it yet.
  bool join(const std::string& key, std::shared_ptr<Flight>& flight) {
    auto mine = std::make_shared<Flight>();
    const std::lock_guard lock(mutex_);
    const auto [found, is_new] = flights_.try_emplace(key, std::move(mine));
    flight = found->second;
    return is_new;
  }

  template <class Make>
  std::shared_ptr<Result> lead(const std::string& key, Flight& flight, const Make& make) {
    try {
      std::shared_ptr<Result> result = make();
      land(key, flight, result, {});
      return result;
    } catch (...) {
      land(key, flight, nullptr, repeat_error(std::current_exception()));
      throw;
    }
  }

  void land(const std::string& key, Flight& flight, std::shared_ptr<Result> result,
            const std::function<void()>& fail) {
    {
      const std::lock_guard lock(mutex_);
      flight.done = true;
      flight.result = std::move(result);
      flight.fail = fail;
      flights_.erase(key);
    }
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::unordered_map<std::string, std::shared_ptr<Flight>> flights_;
};

}  // namespace spjit

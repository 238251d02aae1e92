#pragma once

/// @file
/// When a compilation is given up. Whatever may take long asks.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "spjit/error.hpp"

namespace spjit {

/// A compilation ends when either of the two says so. Both empty: it runs to its end.
struct Cancellation {
  std::optional<std::chrono::steady_clock::time_point> deadline;
  std::stop_token stop;

  [[nodiscard]] bool reached() const noexcept {
    return stop.stop_requested() || (deadline && std::chrono::steady_clock::now() >= *deadline);
  }

  /// Throws Cancelled or DeadlineExceeded if it is reached. Tens of nanoseconds.
  void check() const {
    if (stop.stop_requested()) {
      throw Cancelled("the compilation was given up: it was told to stop; nothing of it was kept");
    }
    if (reached()) {
      throw DeadlineExceeded(
          "the compilation was given up: its deadline had passed; nothing of it was kept; allow "
          "more time");
    }
  }
};

/// Units of work, of some nanoseconds each, between two questions: a few milliseconds at most.
inline constexpr std::int64_t k_cancel_pace = std::int64_t{1} << 16;

/// Calls `work(begin, end)` for one piece of [0, count) after the other, and asks before each.
template <class Work>
void for_each_piece(std::int64_t count, const Cancellation& cancel, const Work& work) {
  for (std::int64_t begin = 0; begin < count; begin += k_cancel_pace) {
    cancel.check();
    work(begin, std::min(count, begin + k_cancel_pace));
  }
}

/// `count` times `value`. Memory is first touched in pieces, which takes longest of a large array.
template <class T>
[[nodiscard]] std::vector<T> filled(std::int64_t count, T value, const Cancellation& cancel) {
  std::vector<T> result;
  result.reserve(static_cast<std::size_t>(count));
  for_each_piece(count, cancel, [&](std::int64_t begin, std::int64_t end) {
    result.insert(result.end(), static_cast<std::size_t>(end - begin), value);
  });
  return result;
}

/// Appends `values` piece by piece.
template <class T, class U>
void append_in_pieces(std::vector<T>& to, std::span<const U> values, const Cancellation& cancel) {
  to.reserve(to.size() + values.size());
  for_each_piece(std::ssize(values), cancel, [&](std::int64_t begin, std::int64_t end) {
    to.insert(to.end(), values.begin() + begin, values.begin() + end);
  });
}

/// Asks now and then, for loops whose steps differ in length. Refers to the cancel.
class CancelPace {
 public:
  explicit CancelPace(const Cancellation& cancel) : cancel_(cancel) {}

  /// Throws what check() throws once in a while. `work`: units since the last call.
  void spend(std::int64_t work) {
    left_ -= work;
    if (left_ > 0) return;
    left_ = k_cancel_pace;
    cancel_.check();
  }

  /// Calls `work(from, to)` for one piece of [begin, end) after the other; a short range is one.
  template <class Work>
  void pieces(std::int64_t begin, std::int64_t end, const Work& work) {
    while (begin < end) {
      const std::int64_t to = std::min(end, begin + k_cancel_pace);
      spend(to - begin);
      work(begin, to);
      begin = to;
    }
  }

 private:
  const Cancellation& cancel_;
  std::int64_t left_ = 0;
};

/// Thrown by what compiles for a limit of its own: not the source's fault.
class CompileCancelled : public CompileFailed {
 public:
  using CompileFailed::CompileFailed;
};

}  // namespace spjit

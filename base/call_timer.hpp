#pragma once

/// @file
/// How long a call takes, warm or cold.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "base/cache_flush.hpp"

namespace spjit {

/// Calls follow one another, or each finds the caches as a network leaves them: full of what other
/// layers read, but for its input, which the layer before has just written.
class CallTimer {
 public:
  CallTimer() = default;
  /// `disturb` is called before each call, untimed; then `input` is read.
  CallTimer(std::function<void()> disturb, std::span<const float> input)
      : disturb_(std::move(disturb)), input_(input) {}
  /// The caches are emptied before each call.
  CallTimer(std::shared_ptr<CacheFlush> flush, std::span<const float> input)
      : CallTimer([flush = std::move(flush)] { flush->flush(); }, input) {}

  /// Of so many calls in all. [us]
  template <class Call>
  [[nodiscard]] double us(std::int64_t calls, const Call& call) const {
    using Clock = std::chrono::steady_clock;
    Clock::duration sum{0};
    auto start = Clock::now();
    for (std::int64_t i = 0; i < calls; ++i) {
      if (disturb_) {
        disturb_();
        read_input();
        start = Clock::now();
      }
      call();
      if (disturb_) sum += Clock::now() - start;
    }
    if (!disturb_) sum = Clock::now() - start;
    return std::chrono::duration<double, std::micro>(sum).count();
  }

 private:
  void read_input() const {
    constexpr std::size_t k_line_floats = 16;
    for (std::size_t i = 0; i < input_.size(); i += k_line_floats) {
      static_cast<void>(*static_cast<const volatile float*>(&input_[i]));
    }
  }

  std::function<void()> disturb_;  ///< empty: calls follow one another
  std::span<const float> input_ = {};
};

}  // namespace spjit

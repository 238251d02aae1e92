#pragma once

/// @file
/// How long a call takes, warm or cold.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "base/cache_flush.hpp"
#include "base/function_ref.hpp"

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
  [[nodiscard]] double us(std::int64_t calls, FunctionRef<void()> call) const;

 private:
  void read_input() const;

  std::function<void()> disturb_;  ///< empty: calls follow one another
  std::span<const float> input_ = {};
};

}  // namespace spjit

#pragma once

/// @file
/// How long a call takes, warm or cold.

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "base/cache_flush.hpp"
#include "base/function_ref.hpp"

namespace spjit {

/// Rows of floats.
struct InputRows {
  const float* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;  ///< floats from row to row
};

/// Calls follow one another, or each finds the caches as a network leaves them: full of what other
/// layers read, but for its input, which the layer before has just written.
class CallTimer {
 public:
  CallTimer() = default;
  /// `disturb` is called before each call, untimed; then `input` is read.
  CallTimer(std::function<void()> disturb, const InputRows& input)
      : disturb_(std::move(disturb)), input_(input) {}
  /// The caches are emptied before each call.
  CallTimer(std::shared_ptr<CacheFlush> flush, const InputRows& input)
      : CallTimer([flush = std::move(flush)] { flush->flush(); }, input) {}

  /// Of so many calls in all. [us]
  [[nodiscard]] double us(std::int64_t calls, FunctionRef<void()> call) const;

 private:
  void read_input() const;

  std::function<void()> disturb_;  ///< empty: calls follow one another
  InputRows input_;
};

}  // namespace spjit

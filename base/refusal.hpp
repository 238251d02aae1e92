#pragma once

/// @file
/// A verdict: yes, or why not.

#include <string>
#include <utility>

namespace spjit {

/// Why something is not to be done, in one line, or that nothing stands against it. It is true
/// where it refuses:
///
///     if (const Refusal refusal = family.refusal(request)) say(refusal.reason());
///
/// Acceptance has to be said. No text stands for it: an empty reason refuses as well.
class [[nodiscard]] Refusal {
 public:
  explicit Refusal(std::string reason) : reason_(std::move(reason)), refuses_(true) {}

  /// Nothing stands against it.
  static Refusal none() noexcept { return {}; }

  explicit operator bool() const noexcept { return refuses_; }

  /// Empty where it refuses nothing.
  [[nodiscard]] const std::string& reason() const& noexcept { return reason_; }
  [[nodiscard]] std::string reason() && noexcept { return std::move(reason_); }

 private:
  Refusal() = default;

  std::string reason_;
  bool refuses_ = false;
};

}  // namespace spjit

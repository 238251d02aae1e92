#pragma once

/// @file
/// Cancellation, progress and turns of a compilation.

#include <exception>
#include <functional>
#include <memory>
#include <string_view>

#include "base/cancel.hpp"
#include "base/turns.hpp"
#include "spjit/progress.hpp"

namespace spjit {

/// Copied from stage to stage. Empty: nobody watches, and nothing stops it.
struct CompileContext {
  Cancellation cancel = {};
  std::function<void(const SearchProgress&)> progress = {};  ///< what it throws ends all
  /// Waits until no other search of the same Compiler times, and keeps others from it.
  std::function<Turns::Place(const Cancellation&)> timing_turn = {};
  /// Waits until no other kernel of the same Compiler is checked, and keeps others from it.
  std::function<Turns::Place(const Cancellation&)> check_turn = {};
  /// Where the time goes that checks took, failed ones too; null: nobody asks.
  std::shared_ptr<double> check_ms = {};

  void check() const { cancel.check(); }

  /// A new stage begins.
  void stage(std::string_view name) const {
    cancel.check();
    if (!progress) return;
    SearchProgress now;
    now.stage = name;
    progress(now);
    cancel.check();
  }

  [[nodiscard]] Turns::Place take_timing_turn() const {
    return timing_turn ? timing_turn(cancel) : nullptr;
  }

  [[nodiscard]] Turns::Place take_check_turn() const {
    return check_turn ? check_turn(cancel) : nullptr;
  }
};

/// An exception of the user's callback, on its way out past whoever handles errors of spjit.
struct CallbackThrew {
  std::exception_ptr error;
};

}  // namespace spjit

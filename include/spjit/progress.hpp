#pragma once

/// @file
/// How a compilation stands, and how it is stopped.

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

namespace spjit {

/// How a search stands; see CompileControl::progress.
struct SearchProgress {
  std::string_view stage;   ///< "proxies" or "kernels"; for a GPU "compiling" before each
  std::size_t done = 0;     ///< candidates of this stage that are settled
  std::size_t total = 0;    ///< candidates of this stage
  std::string_view best;    ///< tile; empty before the first sample
  double best_us = 0;       ///< its time a run so far
  double seconds_left = 0;  ///< of this stage at most
};

/// How a compilation stands.
struct CompileProgress {
  /// - "waiting": for its turn, or for another compilation of the same kernel
  /// - "looking up": in the cache
  /// - "grouping": rows
  /// - the stages of a search: SearchProgress::stage
  /// - "emitting": code; for a GPU also compiling it
  /// - "checking": against float64
  /// - "publishing": to the cache
  /// - "done": whether or not there is a kernel
  std::string stage = "waiting";
  std::size_t done = 0;  ///< this and what follows as in SearchProgress, in stages of a search
  std::size_t total = 0;
  std::string best;
  double best_us = 0;
  double seconds_left = 0;
};

/// Stop token, deadline and callback of one compilation.
///
/// `stop` and `deadline` are looked at while it waits and all along its way. A host kernel of any
/// matrix is given up within about 100 ms. These cannot be interrupted:
/// - a call of LLVM for the generic target: a row tile, some 20 us a nonzero
/// - a call of NVIDIA's libraries: assembling a unit takes a fraction of a second, linking a large
///   kernel longer
/// - one run of a kernel that is being timed or checked
/// - writing to a slow disk
///
/// No cache entry, temporary file or thread at work is left behind. (A search's budget is no
/// deadline: when it is spent, the best so far is taken.)
struct CompileControl {
  std::stop_token stop = {};                                           ///< then Cancelled
  std::optional<std::chrono::steady_clock::time_point> deadline = {};  ///< then DeadlineExceeded
  /// Called by the compiling thread when a stage begins (CompileProgress::stage) and after each
  /// sample of a search, many times a second. What it throws ends the compilation. It must not wait
  /// for this Compiler.
  std::function<void(const SearchProgress&)> progress = {};
};

}  // namespace spjit

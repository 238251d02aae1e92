#pragma once

/// @file
/// Which of a few whole kernels of one problem is the fastest, on this host or on a GPU of it.

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.hpp"
#include "base/tuning.hpp"
#include "kernels/executable.hpp"
#include "plan/compile_context.hpp"
#include "spjit/options.hpp"
#include "spjit/problem.hpp"

namespace spjit {

struct RaceEntry {
  std::string name;
  std::shared_ptr<const Executable> kernel;
};

/// Times kernels of one problem against each other; the i-th result belongs to the i-th entry.
/// Empty: they cannot be timed. Handed in, so that the pipeline itself runs nothing.
using RaceKernels = std::function<std::vector<TuningResult>(std::span<const RaceEntry>)>;

struct RaceOptions {
  std::int64_t between_bytes =
      std::numeric_limits<std::int64_t>::max();  ///< bytes_between_runs(); 0: hot
  double budget_ms = 0;        ///< making operands included, waiting for the turn to time not
  ThreadPool* pool = nullptr;  ///< the threads that the kernels run in; null: this one
  /// Where launches follow one another, into which the kernels are loaded; none: the host.
  std::optional<int> gpu = {};
};

/// Times kernels on operands as the problem has them, in its layouts and with those of its
/// epilogue, warm or cold. Empty where they do not fit the memory, and where a GPU cannot be used.
/// Waits for the turn to time.
/// Throws what `context` throws.
[[nodiscard]] std::vector<TuningResult> race_kernels(std::span<const RaceEntry> entries,
                                                     const Problem& problem,
                                                     const RaceOptions& options,
                                                     const CompileContext& context);

}  // namespace spjit

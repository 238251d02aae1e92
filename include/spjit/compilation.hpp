#pragma once

/// @file
/// A compilation on its way in another thread.

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "spjit/cuda_kernel.hpp"
#include "spjit/export.hpp"
#include "spjit/kernel.hpp"

namespace spjit {

/// How a compilation stands.
struct CompileProgress {
  /// "waiting" (for its turn, or for another compilation of the same kernel), "looking up" (in the
  /// cache), "grouping" (rows), the stages of a search (SearchProgress::stage), "emitting" (code),
  /// "checking" (against float64), "publishing" (to the cache), "done" (whether or not there is a
  /// kernel). For a GPU "emitting"
  /// is followed by compiling without a name of its own.
  std::string stage = "waiting";
  std::size_t done = 0;  ///< this and what follows as in SearchProgress, in stages of a search
  std::size_t total = 0;
  std::string best;
  double best_us = 0;
  double seconds_left = 0;
};

class CompileJob;    // defined in the library
class CompileQueue;  // defined in the library

/// What compile_async() gives (`Kernel` = SpmmKernel) or compile_cuda_async() (CudaKernel).
///
/// Movable, not copyable. All members may be called from several threads at once. It may outlive
/// its Compiler. What was moved from may only be destroyed or assigned to.
///
/// Destroying it, or assigning to it, cancels the compilation and waits until its thread is done
/// with it, as a std::jthread does: promptly, as CompileControl says. From then on nothing runs and
/// no callback is called.
template <class Kernel>
class SPJIT_EXPORT Compilation {
 public:
  Compilation(Compilation&& other) noexcept;
  Compilation& operator=(Compilation&& other) noexcept;
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;
  ~Compilation();

  /// Waits for the kernel, or throws what Compiler::compile() (compile_cuda()) throws, and what
  /// CompileControl::progress threw. May be called again: copies share one kernel.
  [[nodiscard]] Kernel get() const;

  /// Whether get() does not wait any more.
  [[nodiscard]] bool ready() const;

  /// Waits for at most `time`; whether it is ready then.
  bool wait_for(std::chrono::nanoseconds time) const;

  /// How it stands now.
  [[nodiscard]] CompileProgress progress() const;

  /// Asks it to stop and does not wait: get() throws Cancelled soon, unless the kernel is done
  /// first.
  void cancel() const;

  /// Made by Compiler.
  Compilation(std::shared_ptr<CompileQueue> queue, std::shared_ptr<CompileJob> job) noexcept;

 private:
  void abandon() noexcept;

  std::shared_ptr<CompileQueue> queue_;  // its threads are joined by who holds it last
  std::shared_ptr<CompileJob> job_;
};

extern template class Compilation<SpmmKernel>;
extern template class Compilation<CudaKernel>;

}  // namespace spjit

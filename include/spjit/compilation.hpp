#pragma once

/// @file
/// A compilation on its way in another thread.

#include <chrono>
#include <memory>

#include "spjit/export.hpp"
#include "spjit/kernel.hpp"
#include "spjit/progress.hpp"

namespace spjit {

class CompileJob;    // defined in the library
class CompileQueue;  // defined in the library

/// A compilation in another thread, by compile_async().
///
/// Movable, not copyable. All members may be called from several threads at once. It may outlive
/// its Compiler. What was moved from may only be destroyed or assigned to.
///
/// Destroying it, or assigning to it, cancels the compilation and waits until its thread is done
/// with it, as a std::jthread does. CompileControl says how soon that is. From then on nothing runs
/// and no callback is called.
class SPJIT_EXPORT Compilation {
 public:
  Compilation(Compilation&& other) noexcept;
  Compilation& operator=(Compilation&& other) noexcept;
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;
  ~Compilation();

  /// Waits for the kernel, or throws what Compiler::compile() throws, and what
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

}  // namespace spjit

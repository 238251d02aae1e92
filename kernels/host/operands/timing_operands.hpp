#pragma once

/// @file
/// Operands of host kernels that are timed.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/call_timer.hpp"
#include "base/refusal.hpp"
#include "base/thread_pool.hpp"
#include "kernels/host/operands/workspace_pool.hpp"
#include "spjit/arguments.hpp"
#include "spjit/epilogue.hpp"
#include "spjit/layout.hpp"
#include "spjit/numerics.hpp"
#include "spjit/problem.hpp"

namespace spjit {

/// Whose times are compared: kernels of one layer, or what is inside of them.
struct TimingShape {
  std::int64_t rows = 0;
  std::int64_t cols = 0;  ///< rows of B, or channels of an image
  std::int64_t n = 0;     ///< columns of C
  std::int64_t b_columns = 0;
  std::int64_t ldb = 0;
  std::int64_t ldc = 0;
  Layout b_layout = Layout::row_major;
  Layout c_layout = Layout::row_major;
  std::int64_t panel_columns = 1;  ///< of panel-major B and C
  Epilogue epilogue = {};
  std::int64_t height = 0;  ///< of an image; 0: B is none
  std::int64_t width = 0;
  Numerics numerics = {};
};

[[nodiscard]] TimingShape timing_shape_of(const Problem& problem);

/// B with small values, C, the operands of an epilogue, and the timer of runs on them. Where caches
/// are emptied before a run, B is read then, which the layer before has just written, and a
/// residual is not.
class TimingOperands {
 public:
  /// `between_bytes` pass through the caches of all threads of `pool` (null: of this thread) before
  /// each run, as many as empty them at most; 0: runs follow one another. `check` is called now and
  /// then; it may throw to stop. Throws NoMemory.
  TimingOperands(const TimingShape& shape, std::int64_t between_bytes, ThreadPool* pool,
                 const std::function<void()>& check = {});

  [[nodiscard]] const float* b() const noexcept { return b_.data(); }
  [[nodiscard]] float* c() const noexcept { return c_.data(); }
  /// All that a run of the layer takes, but for values of A.
  [[nodiscard]] const Arguments& arguments() const noexcept { return arguments_; }
  [[nodiscard]] const CallTimer& timer() const noexcept { return timer_; }
  [[nodiscard]] const WorkspacePool& workspaces() const noexcept { return workspaces_; }

 private:
  WorkspacePool workspaces_;
  WorkspacePool::Loan b_;
  WorkspacePool::Loan c_;
  WorkspacePool::Loan residual_;  ///< empty if there is none; so the next
  WorkspacePool::Loan features_;  ///< scale, then bias
  Arguments arguments_;
  CallTimer timer_;
};

/// Whether kernels of the problem can be timed here.
[[nodiscard]] Refusal too_large_to_time(const Problem& problem);

}  // namespace spjit

#pragma once

/// @file
/// From one candidate to its kernel.

#include "compiler/cuda_pipeline.hpp"
#include "compiler/kernel_plan.hpp"
#include "runtime/compile_cancel.hpp"

namespace spjit {

/// Emits and builds a candidate's kernel, again with fewer blocks an SM as long as it spills and
/// that allows more registers. `plan` is at the candidate's m1, k in one block. The trace has no
/// choice. Throws as compile_cuda_kernel() does: what `cancel` throws once it is reached,
/// CompileCancelled after `compile_limit_ms`.
[[nodiscard]] CompiledCuda build_cuda_kernel(const KernelPlan& plan, const CudaCandidate& candidate,
                                             const CompileOptions& options,
                                             const CudaLimits& limits,
                                             const CompileCancel& cancel = {});

}  // namespace spjit

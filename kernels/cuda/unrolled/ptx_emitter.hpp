#pragma once

/// @file
/// From a KernelPlan to PTX: the fast way to the final kernel.

#include <vector>

#include "base/cancel.hpp"
#include "kernels/cuda/unrolled/cuda_tile.hpp"
#include "kernels/cuda/unrolled/cuda_units.hpp"
#include "plan/kernel_plan.hpp"

namespace spjit {

/// Rises whenever the emitted text changes; part of what a compilation is cached by.
inline constexpr int k_ptx_emitter_version = 7;

/// The PTX of emit_cuda()'s kernel: the same name, parameters, launch, order of operations and
/// bits. `sm` is the compute capability times ten, 75 for sm_75. Throws InvalidArgument as
/// check_cuda_spec() does, NotSupported as ptx_version() does, and what `cancel` throws, which is
/// asked for each unit.
[[nodiscard]] std::vector<SourceUnit> emit_ptx(const KernelPlan& plan, const CudaKernelSpec& spec,
                                               int sm, const Cancellation& cancel = {});

}  // namespace spjit

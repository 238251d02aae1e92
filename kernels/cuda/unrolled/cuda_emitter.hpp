#pragma once

/// @file
/// From a KernelPlan to readable CUDA C++.

#include <vector>

#include "base/cancel.hpp"
#include "kernels/cuda/unrolled/cuda_tile.hpp"
#include "kernels/cuda/unrolled/cuda_units.hpp"
#include "plan/kernel_plan.hpp"

namespace spjit {

/// Rises whenever the emitted text changes; part of what a compilation is cached by.
inline constexpr int k_cuda_emitter_version = 6;

/// CUDA C++17 of `k_cuda_kernel_name` (cuda_tile.hpp) for NVRTC or nvcc, one unit or several.
///
/// A thread keeps one accumulator a row. It walks the tile's columns in ascending order: the
/// element of B is loaded once through the read-only path, and `__fmaf_rn` adds its products, from
/// +0 on. So C has the bits of `evaluate(plan, Arithmetic::fused, ...)`, as long as the code is
/// compiled without `-ftz=true`. The sum of an empty row is +0. The epilogue follows (Epilogue),
/// each operation rounded by itself. Values are exact literals, or,
/// at run time, of a stream (value_stream.hpp): then the text depends on A's pattern alone.
/// Deterministic; text linear in nnz + rows.
/// Throws InvalidArgument as check_cuda_spec() does, and what `cancel` throws, which is asked for
/// each unit.
[[nodiscard]] std::vector<SourceUnit> emit_cuda(const KernelPlan& plan, const CudaKernelSpec& spec,
                                                const Cancellation& cancel = {});

}  // namespace spjit

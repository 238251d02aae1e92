#pragma once

/// @file
/// The JSON record of a CUDA kernel: what was compiled, what was chosen and why.

#include <nlohmann/json.hpp>

#include "compiler/cuda_pipeline.hpp"
#include "runtime/cuda/cuda_device_info.hpp"
#include "spjit/compiler.hpp"
#include "spjit/cuda_kernel.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// docs/cache-format.md lists the members. Throws what `cancel` throws soon after it is reached.
[[nodiscard]] nlohmann::json make_cuda_record(const CsrMatrix& matrix,
                                              const CompileOptions& options,
                                              const CudaDeviceInfo& limits,
                                              const CompiledCuda& compiled,
                                              const Cancellation& cancel = {});

/// What a record says about its kernel; all but key, from_cache and compile_ms. Throws Error for a
/// record that is not one of a CUDA kernel.
[[nodiscard]] CudaKernelInfo read_cuda_record(const nlohmann::json& record);

}  // namespace spjit

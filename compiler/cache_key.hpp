#pragma once

/// @file
/// The cache key of a compilation.

#include <string>

#include "base/cancel.hpp"
#include "runtime/cuda/cuda_device_info.hpp"
#include "runtime/host/host_device_info.hpp"
#include "spjit/compiler.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// SHA-256 over everything that decides the artifact: A's pattern and value bits, the options, what
/// the choice of the tile looks at in the device, and the versions of emitter and library.
/// docs/cache-format.md lists the fields. 64 hexadecimal digits. `rank_model`: id of the model that
/// ranks, empty for the prior; instant mode does not look at it. Throws what `cancel` throws soon
/// after it is reached.
[[nodiscard]] std::string cache_key(const CsrMatrix& matrix, const CompileOptions& options,
                                    const HostDeviceInfo& limits,
                                    const std::string& rank_model = {},
                                    const Cancellation& cancel = {});

/// The same for a GPU. What compiled the code is not part of it: every compiler library makes a
/// kernel with the same bits, and a machine without any has to find what another one compiled.
/// `timed_on`: the GPU that a search would time on, empty without one; instant mode does not look
/// at it.
[[nodiscard]] std::string cuda_cache_key(const CsrMatrix& matrix, const CompileOptions& options,
                                         const CudaDeviceInfo& limits,
                                         const std::string& timed_on = {},
                                         const Cancellation& cancel = {});

}  // namespace spjit

#pragma once

/// @file
/// Tools that the benchmarks' searches compile and time with.

#include <memory>
#include <optional>
#include <string>

#include "bench/gpu/cubin_cache.hpp"
#include "kernels/cuda/unrolled/cuda_tunable.hpp"
#include "runtime/cuda/cuda_libraries.hpp"

namespace spjit::bench {

/// Compiles as local_cuda_tools() do, but times nothing: every candidate is not reached. Refers to
/// all that the input does.
[[nodiscard]] CudaSearchTools compile_only_tools(const CudaSearchInput& input,
                                                 const CudaToolchain& toolchain);

/// As local_cuda_tools(), without a GPU (`ordinal`) as compile_only_tools(); but the compilers are
/// looked for when something is compiled, so that where everything comes from a cache they need
/// not be there.
[[nodiscard]] CudaSearchTools lazy_cuda_tools(const CudaSearchInput& input,
                                              std::optional<int> ordinal);

/// `tools` with cubins that are found in the cache or added to it.
[[nodiscard]] CudaSearchTools stored_tools(const CudaSearchInput& input, CudaSearchTools tools,
                                           const std::shared_ptr<CubinCache>& cubins);

/// `tools` with the fewest launches, for the emulated driver: every step of a search is taken, no
/// time of it means anything.
[[nodiscard]] CudaSearchTools rehearsal_tools(CudaSearchTools tools);

}  // namespace spjit::bench

#pragma once

/// @file
/// Searches on the emulated driver, which takes PTX and no cubin.

#include "kernels/unrolled_cuda/cuda_tunable.hpp"

namespace spjit::bench {

/// The same tools with PTX in the place of cubins and with the fewest launches: every
/// step of a search is taken, no time of it means anything. The result refers to `input`.
[[nodiscard]] CudaSearchTools rehearsal_tools(const CudaSearchInput& input, CudaSearchTools tools);

}  // namespace spjit::bench

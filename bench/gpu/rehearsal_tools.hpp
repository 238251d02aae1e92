#pragma once

/// @file
/// Searches on the emulated driver.

#include "kernels/unrolled_cuda/cuda_tunable.hpp"

namespace spjit::bench {

/// The same tools with the fewest launches: every step of a search is taken, no time of it means
/// anything.
[[nodiscard]] CudaSearchTools rehearsal_tools(CudaSearchTools tools);

}  // namespace spjit::bench

#pragma once

/// @file
/// How many registers a thread of a CUDA kernel needs, from its plan alone.

#include <cstdint>

#include "kernels/unrolled_cuda/cuda_tile.hpp"
#include "plan/kernel_plan.hpp"

namespace spjit {

/// The terms of the prediction, for the register rule's numbers.
struct RegisterPrediction {
  std::int64_t accumulators = 0;  ///< rows of the fullest tile
  std::int64_t b_in_flight = 0;   ///< elements of B that were loaded and not used up
  std::int64_t addressing = 0;    ///< pointers, what the calling convention keeps, temporaries

  [[nodiscard]] std::int64_t total() const noexcept {
    return accumulators + b_in_flight + addressing;
  }
};

/// Registers a thread that ptxas needs so as not to spill: what to cap the kernel at. (Without a
/// cap it takes all it can get, up to 255, to issue loads earlier still.) May exceed 255: such a
/// tile spills.
///
/// The constants are fitted to ptxas 13.0: the smallest `-maxrregcount` without spills over sm_75,
/// sm_90 and sm_120, 16 to 128 rows. With constant sizes the prediction is one above it everywhere,
/// with run-time sizes 6 to 13: how many addresses are on their way differs between architectures.
[[nodiscard]] RegisterPrediction predict_registers(const KernelPlan& plan, const CudaTile& tile);

/// The same without a plan: `rows` of the fullest row tile.
[[nodiscard]] RegisterPrediction predict_registers(std::int64_t rows, const CudaTile& tile);

}  // namespace spjit

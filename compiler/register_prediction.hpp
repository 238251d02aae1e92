#pragma once

/// @file
/// How many registers a thread of a CUDA kernel needs, from its plan alone.

#include <cstdint>

#include "compiler/cuda_tile.hpp"
#include "compiler/kernel_plan.hpp"

namespace spjit {

/// The terms of the prediction, for the register rule's numbers.
struct RegisterPrediction {
  std::int64_t accumulators = 0;  ///< rows of the fullest tile
  std::int64_t prefetched_b = 0;  ///< elements of B in flight: prefetch distance + 1, at least 5
  std::int64_t addressing = 0;    ///< pointers, what the calling convention keeps, temporaries

  [[nodiscard]] std::int64_t total() const noexcept {
    return accumulators + prefetched_b + addressing;
  }
};

/// Registers a thread that ptxas needs so as not to spill: what to cap the kernel at. (Without a
/// cap it takes all it can get, up to 255, to issue loads earlier still.) May exceed 255: such a
/// tile spills.
///
/// The constants are fitted to ptxas 13.0: the smallest `-maxrregcount` without spills over sm_75,
/// sm_90 and sm_120, 16 to 128 rows, distances 0 to 16. With constant sizes the prediction is never
/// below it there, and above it by 2 on average (at most 8) at distances up to 8, by 6 (at most 16)
/// at distance 16, where ptxas can delay loads. With run-time sizes it is above by 11 (at most 25):
/// how many addresses are on their way differs between architectures; one case of 40, 128 rows at
/// distance 16 on sm_90, needs 9 more than predicted.
[[nodiscard]] RegisterPrediction predict_registers(const KernelPlan& plan, const CudaTile& tile);

/// The same without a plan: `rows` of the fullest row tile, non-empty `columns` of the one that has
/// most (GroupingStatistics::nnc_max).
[[nodiscard]] RegisterPrediction predict_registers(std::int64_t rows, std::int64_t columns,
                                                   const CudaTile& tile);

}  // namespace spjit

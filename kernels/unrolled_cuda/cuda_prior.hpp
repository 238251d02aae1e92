#pragma once

/// @file
/// The ranking of CUDA tiles by a formula, for as long as there is no model of measurements.

#include <vector>

#include "kernels/unrolled_cuda/cuda_candidate.hpp"
#include "runtime/cuda/cuda_device_info.hpp"

namespace spjit {

/// Estimated cycles of a launch, of the SM that has most to do:
///
///     (ceil(blocks / SMs) x block + (largest block - block)) / hidden
///     block  = max(issue, memory, fetch)
///     issue  = warps x (nnz + nnc + rows of a tile, and predicates of loads of a convolution)
///              / instructions an SM issues a cycle
///     memory = bytes of B and C / bytes a cycle, through L2 and, where B and C are larger, DRAM;
///              of a convolution those of its image, once for all taps; of what the row tiles of a
///              block have in common a part is in L1
///     fetch  = bytes of code / bytes a cycle; none where all of it fits the instruction cache
///     hidden = min(1, loads in flight on an SM / loads that hide the latency)
///
/// A block here has mean tiles, and the largest block the one with most nonzeros and columns among
/// them: what unequal tiles cost. A warp has the more loads in flight, the more registers its cap
/// leaves. The constants, most of them guesses that were not measured on a device, are in the
/// source. Infinite for a candidate of which no block can be active.
[[nodiscard]] double estimate_cuda_cycles(const CudaCandidate& candidate,
                                          const CudaDeviceInfo& limits);

/// The terms of that formula.
struct CudaCost {
  double issue = 0;         ///< cycles of a block
  double memory = 0;        ///< cycles of a block
  double fetch = 0;         ///< cycles of a block
  double blocks_an_sm = 0;  ///< ceil(blocks / SMs)
  double largest = 0;       ///< cycles that the largest block has more than the others
  double hidden = 1;        ///< share of the latency of loads, at most 1

  [[nodiscard]] double cycles() const noexcept;
};

/// Of a candidate that has blocks, and of which one can be active.
[[nodiscard]] CudaCost estimate_cuda_cost(const CudaCandidate& candidate,
                                          const CudaDeviceInfo& limits);

/// The candidates with `score` = -estimated cycles, best first; of equal ones those with N1 >= 128
/// (fewer blocks fetch the same code), then by fewer registers, a lower cap, fewer tiles a block
/// and by name. Deterministic.
[[nodiscard]] std::vector<CudaCandidate> rank_by_prior(std::vector<CudaCandidate> survivors,
                                                       const CudaDeviceInfo& limits);

}  // namespace spjit

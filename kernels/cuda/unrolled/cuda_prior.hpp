#pragma once

/// @file
/// The ranking of CUDA tiles by a formula, for as long as there is no model of measurements.

#include <vector>

#include "kernels/cuda/unrolled/cuda_candidate.hpp"
#include "runtime/cuda/cuda_device_info.hpp"

namespace spjit {

/// Estimated cycles of a launch, of the SM that has most to do: the root of the sum of the squares
/// of
///
/// - issue = warps x (nnz x fp32_interval + nnc + rows of a tile, and predicates of loads
///   of a convolution) / partitions,
/// - memory = bytes of B and C / bytes a cycle from L2; of a convolution those of its
///   image, once for all taps; of what row tiles of a block have in common a part is in L1,
/// - fetch = bytes of code / bytes a cycle of the level of instruction caches that holds all,
/// - dram = bytes of B and C, each once, / bytes a cycle from DRAM; none where half of L2 holds
/// them,
/// - latency = waves x max(issue of a warp of the largest tile, L2's latency x (1 + its
///   loads / loads that a warp has in flight)), or DRAM's latency.
///
/// The first three are of ceil(blocks / SMs) mean blocks and what the largest block has more, the
/// one with most nonzeros and columns: what unequal tiles cost. A warp has the more loads in
/// flight, the more registers its cap leaves. The terms overlap, more or less: the root is between
/// their maximum and their sum. Constants of the device are the clock's
/// (nearest_clock_constants()). How the ranking compares with times of an
/// H100: docs/results/search.md. Infinite for a candidate of which no block can be active.
[[nodiscard]] double estimate_cuda_cycles(const CudaCandidate& candidate,
                                          const CudaDeviceInfo& limits);

/// The terms of that formula. [cycles of an SM]
struct CudaCost {
  double issue = 0;
  double memory = 0;
  double dram = 0;
  double fetch = 0;
  double latency = 0;

  [[nodiscard]] double cycles() const noexcept;
};

/// Cost of a candidate that has blocks, and of which one can be active.
[[nodiscard]] CudaCost estimate_cuda_cost(const CudaCandidate& candidate,
                                          const CudaDeviceInfo& limits);

/// The candidates with `score` = -estimated cycles, best first; of equal ones those with N1 >= 128
/// (fewer blocks fetch the same code), then by fewer registers, a lower cap, fewer tiles a block
/// and by name. Deterministic.
[[nodiscard]] std::vector<CudaCandidate> rank_by_prior(std::vector<CudaCandidate> survivors,
                                                       const CudaDeviceInfo& limits);

}  // namespace spjit

#pragma once

/// @file
/// An order of CUDA tiles from arithmetic alone, for devices that nothing has been measured on.
/// Output calls it `prior`.

#include <vector>

#include "compiler/cuda_candidate.hpp"
#include "compiler/cuda_limits.hpp"

namespace spjit {

/// Cycles of an SM that the kernel takes, as a roofline of its parts:
///
///     groups = ceil(blocks / (SMs x active blocks)), the blocks of an SM run group after group
///     busy   = active blocks x max(issue, load, fetch)    what a block keeps busy
///     wait   = the issue of one warp + waits for B        what one block takes alone
///     cycles = groups x max(busy, wait)
///
/// issue: instructions of a block's warps over what the SM starts a cycle; load: bytes of B over
/// the L2's width; fetch: bytes of code over the rate of instruction fetch, once for a block
/// because its warps run through the same code closely; waits: a load's latency, shared by the
/// loads in flight. The constants are in cuda_prior.cpp; those of memory and fetch are guesses that
/// no device has been asked about, so the order is a place to begin a search, not a result.
[[nodiscard]] double prior_cycles(const CudaCandidate& candidate, const CudaLimits& limits);

/// The candidates by ascending prior_cycles(); of equal ones the one with fewer registers, then
/// with the smaller M1 and N1, first. `score` becomes minus the cycles.
[[nodiscard]] std::vector<CudaCandidate> rank_by_prior(std::vector<CudaCandidate> candidates,
                                                       const CudaLimits& limits);

}  // namespace spjit

#pragma once

/// @file
/// The CUDA tile space and its hardware rules: from counts and a device as plain data.

#include <optional>

#include "kernels/cuda/unrolled/cuda_candidate.hpp"
#include "reorder/row_groupings.hpp"
#include "runtime/cuda/cuda_device_info.hpp"
#include "spjit/options.hpp"
#include "spjit/problem.hpp"

namespace spjit {

/// All tiles for a matrix on a device, each checked against the rules, which are tried in the order
/// of CudaRule.
///
/// M1 is one of 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128 that is not above the number of
/// non-empty rows, or that number itself where it is at most 128 (1 where there are none); N1 one
/// of 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024 that leaves at most 65535 column tiles. A
/// given m1 or n1 is the only one. Of each there are blocks of 1, 2 and 4 row tiles, where there
/// are so many, they have whole warps and at most 1024 threads together, and their tokens fit 48
/// KB.
///
/// Each has `CudaCap::device`; where the grid brings fewer blocks and that allows more registers,
/// the same tile with `CudaCap::grid` comes after it.
///
/// `groupings` says how rows are grouped. Where that is `automatic`, a tile has `similarity` if the
/// rules leave it then, and do not leave it with `balanced` or estimate_cuda_cycles() is no more
/// than with that; else `balanced`.
///
/// Where an SM has several blocks, work evens out, and unequal row tiles and padding are a cost of
/// the ranking. Where it has one at most, the longest block is the time, and balance is a rule.
///
/// If no candidate is left, rules are relaxed until one is: first balance, else occupancy, else
/// both; a rule whose relaxing lets nothing in stays. Registers and the code budget are never
/// relaxed, so a space may have no survivors.
///
/// Throws InvalidArgument for an n, m1, n1 or size of units that no kernel can be emitted for; what
/// `cancel` throws soon after it is reached.
[[nodiscard]] CudaTileSpace enumerate_cuda_tiles(const Problem& problem, const SearchPolicy& policy,
                                                 const CudaDeviceInfo& limits,
                                                 RowGroupings& groupings,
                                                 const Cancellation& cancel = {});

/// The first rule that a described candidate breaks; empty: none.
[[nodiscard]] std::optional<DroppedCudaCandidate> broken_cuda_rule(const CudaCandidate& candidate,
                                                                   const SearchPolicy& policy,
                                                                   const CudaDeviceInfo& limits);

/// Applies the balance rule to a candidate, however many blocks an SM has (LO-SpMM).
[[nodiscard]] std::optional<DroppedCudaCandidate> unbalanced(const CudaCandidate& candidate);

/// The candidate for one tile as it is given (of the policy only the code budget is looked
/// at): statistics and the first rule that drops it. `grouping` is one of A, at the tile's m1.
/// Throws as enumerate_cuda_tiles() does.
[[nodiscard]] CudaCandidate examine_cuda_tile(const Problem& problem, const CudaTile& tile,
                                              const SearchPolicy& policy,
                                              const CudaDeviceInfo& limits,
                                              const RowGrouping& grouping);

}  // namespace spjit

#pragma once

/// @file
/// The CUDA tile space and its hardware rules. Needs no GPU and no CUDA library.

#include <cstdint>
#include <optional>

#include "compiler/cuda_candidate.hpp"
#include "compiler/cuda_limits.hpp"
#include "compiler/tile_space.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// What of a compilation the tiles depend on.
struct CudaProblem {
  std::int64_t n = 0;
  std::int64_t code_budget_bytes = 0;
  std::int64_t unit_nonzeros = 2048;
  bool runtime_sizes = false;
  std::optional<std::int64_t> prefetch_distance = {};  ///< default: k_prefetch_distances
  std::optional<std::int64_t> m1 = {};                 ///< only this one
  std::optional<std::int64_t> n1 = {};                 ///< only this one
};

/// Tried in this order: the first that costs no block of an SM and fits a thread is taken, so that
/// loads run as far ahead as registers allow for nothing.
inline constexpr std::int64_t k_prefetch_distances[] = {8, 4, 2, 0};

/// M1 x N1: M1 in 2 .. 128 and N1 in 32 .. 1024 (seed 001), powers of two and the steps halfway
/// between. No M1 above the number of non-empty rows, but that number itself if it is at most 128.
/// If the rules leave no candidate they are relaxed in the order balance, occupancy, until one is
/// left; registers and the code budget never are.
[[nodiscard]] CudaTileSpace enumerate_cuda_tiles(const CsrMatrix& matrix,
                                                 const CudaProblem& problem,
                                                 const CudaLimits& limits, const GroupRows& group);

/// One candidate: statistics and the first rule that drops it. `tile.prefetch_distance` is taken
/// as it is.
[[nodiscard]] CudaCandidate examine_cuda_tile(const CsrMatrix& matrix, const CudaTile& tile,
                                              const CudaProblem& problem, const CudaLimits& limits,
                                              const RowGrouping& grouping);

}  // namespace spjit

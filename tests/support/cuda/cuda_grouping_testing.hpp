#pragma once

/// @file
/// The row grouping that the default choice has to be, for the tests that look at it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <tuple>
#include <vector>

#include "kernels/cuda/unrolled/cuda_prior.hpp"
#include "tests/support/cuda/cuda_space_testing.hpp"

namespace spjit::testing_support {

/// The tiles of a problem whose rows are grouped by one algorithm.
[[nodiscard]] inline CudaTileSpace cuda_space_by(const Problem& problem, ReorderAlgorithm reorder) {
  SearchPolicy policy = cuda_policy();
  policy.reorder = reorder;
  return cuda_space(problem, policy);
}

/// m1, n1 and tiles a block.
using TilePlace = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
[[nodiscard]] inline TilePlace place_of(const CudaCandidate& candidate) {
  return {candidate.tile.m1, candidate.tile.n1, candidate.tile.tiles_a_block};
}

/// Of the tiles that the rules leave.
[[nodiscard]] inline std::set<TilePlace> places_left(const CudaTileSpace& space) {
  std::set<TilePlace> places;
  for (const CudaCandidate& kept : space.survivors()) places.insert(place_of(kept));
  return places;
}

/// By the formula; infinite where no tile is left.
[[nodiscard]] inline double least_cycles(const CudaTileSpace& space) {
  const std::vector<CudaCandidate> ranked = rank_by_prior(space.survivors(), cuda_limits());
  return ranked.empty() ? std::numeric_limits<double>::infinity() : -ranked.front().score;
}

/// The default relaxes no rule, leaves every tile that Algorithm 1 leaves, and is by the formula as
/// fast as the better of both algorithms.
inline void expect_best_of_both(const Problem& problem) {
  const CudaTileSpace chosen = cuda_space(problem);
  const CudaTileSpace balanced = cuda_space_by(problem, ReorderAlgorithm::balanced);
  const CudaTileSpace similar = cuda_space_by(problem, ReorderAlgorithm::similarity);

  EXPECT_TRUE(chosen.relaxed.empty());
  EXPECT_TRUE(std::ranges::includes(places_left(chosen), places_left(balanced)));
  EXPECT_LE(least_cycles(chosen), std::min(least_cycles(balanced), least_cycles(similar)));
}

}  // namespace spjit::testing_support

#pragma once

/// @file
/// What the tests of the CUDA tile space share.

#include <cstdint>
#include <map>

#include "kernels/unrolled_cuda/cuda_tile_space.hpp"
#include "reorder/row_grouping.hpp"
#include "spjit/matrix.hpp"

namespace spjit::testing_support {

/// An H100 with as many SMs as are wanted.
[[nodiscard]] inline CudaDeviceInfo cuda_limits(std::int64_t sms = 132) {
  CudaDeviceInfo limits = parse_cuda_target("sm_90:h100");
  limits.sms = sms;
  return limits;
}

/// n columns, everything else as it is by default.
[[nodiscard]] inline CudaProblem cuda_problem(std::int64_t n) {
  CudaProblem problem;
  problem.n = n;
  return problem;
}

[[nodiscard]] inline CudaTileSpace cuda_space(const CsrMatrix& matrix, const CudaProblem& problem,
                                              const CudaDeviceInfo& limits = cuda_limits()) {
  std::map<std::int64_t, RowGrouping> groupings;
  return enumerate_cuda_tiles(matrix, problem, limits, [&](std::int64_t m1) -> const RowGrouping& {
    auto found = groupings.find(m1);
    if (found == groupings.end()) {
      found = groupings.emplace(m1, group_rows(matrix, m1, ReorderAlgorithm::balanced)).first;
    }
    return found->second;
  });
}

}  // namespace spjit::testing_support

#pragma once

/// @file
/// Helpers of tests of the CUDA tile space.

#include <cstdint>

#include "kernels/cuda/unrolled/cuda_tile_space.hpp"
#include "reorder/row_groupings.hpp"
#include "spjit/matrix.hpp"

namespace spjit::testing_support {

/// An H100 with as many SMs as are wanted.
[[nodiscard]] inline CudaDeviceInfo cuda_limits(std::int64_t sms = 132) {
  CudaDeviceInfo limits = parse_cuda_target("sm_90:h100");
  limits.sms = sms;
  return limits;
}

/// n columns, everything else as it is by default.
[[nodiscard]] inline Problem cuda_problem(CsrMatrix matrix, std::int64_t n) {
  Problem problem;
  problem.a = std::move(matrix);
  problem.n = n;
  return problem;
}

/// The code budget that these tests count with.
[[nodiscard]] inline SearchPolicy cuda_policy() {
  SearchPolicy policy;
  policy.code_budget_bytes = std::int64_t{64} << 20;
  return policy;
}

/// The tiles of a problem; rows are grouped as the policy says.
[[nodiscard]] inline CudaTileSpace cuda_space(const Problem& problem,
                                              const SearchPolicy& policy = cuda_policy(),
                                              const CudaDeviceInfo& limits = cuda_limits()) {
  RowGroupings groupings(*problem.a, policy.reorder);
  return enumerate_cuda_tiles(problem, policy, limits, groupings);
}

}  // namespace spjit::testing_support

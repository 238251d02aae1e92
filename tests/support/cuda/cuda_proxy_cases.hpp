#pragma once

/// @file
/// Candidates and proxies that tests share.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/cuda/unrolled/cuda_proxy.hpp"
#include "kernels/cuda/unrolled/cuda_tile_space.hpp"
#include "tests/support/cuda/cuda_space_testing.hpp"
#include "tests/support/cuda/emitter_cases.hpp"

namespace spjit::testing_support {

/// A plan and the candidates of its M1.
struct ProxyCase {
  KernelPlan plan;
  std::vector<CudaCandidate> candidates;
  CudaDeviceInfo limits;
};

struct ProxyCaseOptions {
  bool runtime_sizes = false;
  std::int64_t ldb = 0;  ///< 0: n
  std::int64_t ldc = 0;
  CudaDeviceInfo limits = cuda_limits();
};

/// A candidate for each N1 given, with n columns, on an H100 or another device.
[[nodiscard]] inline ProxyCase proxy_case(const CsrMatrix& matrix, std::int64_t m1, std::int64_t n,
                                          const std::vector<std::int64_t>& n1s,
                                          const ProxyCaseOptions& options = {}) {
  ProxyCase made{cuda_plan(matrix, m1), {}, options.limits};
  Problem problem = cuda_problem(matrix, n);
  problem.n.runtime = options.runtime_sizes;
  problem.b.leading_dimension = options.ldb;
  problem.c.leading_dimension = options.ldc;
  for (const std::int64_t n1 : n1s) {
    CudaTile tile;
    tile.m1 = m1;
    tile.n1 = n1;
    tile.runtime_sizes = options.runtime_sizes;
    made.candidates.push_back(
        examine_cuda_tile(problem, tile, cuda_policy(), made.limits, made.plan.grouping));
  }
  return made;
}

/// The problem as a CudaTimer needs it.
[[nodiscard]] inline Problem timed_problem(std::int64_t m, std::int64_t k, std::int64_t n,
                                           std::int64_t ldb = 0, std::int64_t ldc = 0) {
  CsrMatrix shape;
  shape.rows = m;
  shape.cols = k;
  Problem problem = cuda_problem(std::move(shape), n);
  problem.b.leading_dimension = ldb;
  problem.c.leading_dimension = ldc;
  return problem;
}

[[nodiscard]] inline std::int64_t columns_of(const KernelPlan& plan, std::int64_t tile) {
  const PlanSegment segment = plan.segment(tile, 0);
  return segment.column_end - segment.column_begin;
}

/// Non-empty columns of the tile that has most of them.
[[nodiscard]] inline std::int64_t most_columns(const KernelPlan& plan) {
  std::int64_t most = 0;
  for (std::int64_t tile = 0; tile < plan.grouping.tiles(); ++tile) {
    most = std::max(most, columns_of(plan, tile));
  }
  return most;
}

/// Whether a proxy costs no more than its plan: nonzeros, columns a tile, functions.
[[nodiscard]] inline bool is_no_larger(const KernelPlan& proxy, const KernelPlan& plan) {
  return proxy.nnz() <= plan.nnz() && most_columns(proxy) <= most_columns(plan) &&
         proxy.grouping.tiles() <= plan.grouping.tiles() && proxy.rows <= plan.rows;
}

}  // namespace spjit::testing_support

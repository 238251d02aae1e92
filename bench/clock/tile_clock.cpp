#include "bench/clock/tile_clock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "kernels/cuda/unrolled/cuda_modelled.hpp"
#include "plan/kernel_plan.hpp"
#include "spjit/error.hpp"
#include "spjit/matrix_io.hpp"

namespace spjit::bench {
namespace {

Problem problem_of(const std::filesystem::path& matrix, std::int64_t n) {
  Problem problem;
  problem.a = load_matrix(matrix);
  problem.n = n;
  return problem;
}

}  // namespace

TileClock::TileClock(const std::filesystem::path& matrix, std::int64_t n,
                     const CudaDeviceInfo& device)
    : device_(device),
      constants_(required_clock_constants(device.arch)),
      problem_(problem_of(matrix, n)) {
  for (const ReorderAlgorithm reorder :
       {ReorderAlgorithm::similarity, ReorderAlgorithm::balanced}) {
    Grouped& grouped = grouped_.emplace_back(*problem_.a, reorder);
    grouped.space = enumerate_cuda_tiles(problem_, compile_.policy, device_, grouped.groupings);
  }
}

const CudaCandidate& TileClock::candidate(const std::string& tile) const {
  for (const Grouped& grouped : grouped_) {
    for (const CudaCandidate& candidate : grouped.space.candidates) {
      if (to_string(candidate.tile) == tile) return candidate;
    }
  }
  throw Error(fmt::format("the tile space has no \"{}\"; expected one as explain prints it", tile));
}

BuiltCuda TileClock::build(const CudaCandidate& candidate) {
  const ReorderAlgorithm reorder = candidate.tile.reorder;
  const auto grouped = std::ranges::find(
      grouped_, reorder, [](const Grouped& of) { return of.groupings.algorithm(); });
  if (grouped == grouped_.end()) {
    throw Error(fmt::format("{}: rows are grouped in another way", to_string(candidate.tile)));
  }
  const KernelPlan plan =
      build_plan(*problem_.a, grouped->groupings.at(candidate.tile.m1, reorder), problem_.a->cols);
  return build_cuda_kernel(plan, candidate, compile_, device_);
}

ModelledTime TileClock::model(const BuiltCuda& built, const CudaCandidate& candidate,
                              const ClockLimits& limits) const {
  const auto cubin = std::as_bytes(std::span(built.artifact.cubin));
  const ClockLaunch launch =
      clock_launch(problem_, cubin, launch_of(candidate, built.program.blocks_x));
  return modelled_time(cubin, launch, device_, constants_, limits);
}

}  // namespace spjit::bench

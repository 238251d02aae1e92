#include "kernels/unrolled_cuda/cuda_prior.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/cuda_space_testing.hpp"
#include "tests/support/padded_3x3.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::CudaCandidate;
using spjit::CudaDeviceInfo;
using spjit::testing_support::cuda_limits;
using spjit::testing_support::cuda_problem;
using spjit::testing_support::cuda_space;
using spjit::testing_support::padded_3x3;
using spjit::testing_support::random_matrix;

/// One block of 256 threads an SM: 8 warps, two a scheduler.
CudaCandidate bound_by_fmas(std::int64_t nnz) {
  CudaCandidate candidate;
  candidate.tile.n1 = 256;
  candidate.work = {.rows = 4, .cols = 4, .nnz = nnz, .n = 256, .m = 4};
  candidate.column_tiles = 1;
  candidate.row_tiles = 1;
  candidate.blocks = 1;
  candidate.grouping.tiles = 1;
  candidate.grouping.nnc_sum = 4;
  candidate.grouping.tile_nnz_max = nnz;
  candidate.occupancy.active_blocks = 4;
  candidate.occupancy.active_warps = 32;
  return candidate;
}

std::vector<std::string> ranked_names_of(const std::vector<CudaCandidate>& candidates) {
  std::vector<std::string> names;
  for (const CudaCandidate& candidate : candidates) names.push_back(to_string(candidate.tile));
  return names;
}

TEST(CudaPrior, CountsACycleAnInstructionOfAWarpOnEachScheduler) {
  // 8 warps x (1000 FMAs + 4 loads + 4 stores) / 4 schedulers; 8 x 9 loads in flight hide all.
  EXPECT_DOUBLE_EQ(spjit::estimate_cuda_cycles(bound_by_fmas(1000), cuda_limits()), 2016);
}

TEST(CudaPrior, CountsALoadForFourValuesAtRunTime) {
  CudaCandidate candidate = bound_by_fmas(1000);
  candidate.layer.runtime_values = true;

  // 8 warps x (1000 FMAs + 250 loads of values + 4 loads + 4 stores) / 4 schedulers.
  EXPECT_DOUBLE_EQ(spjit::estimate_cuda_cycles(candidate, cuda_limits()), 2516);
}

TEST(CudaPrior, CountsPredicatesOfLoadsAndTheBytesOfAnImage) {
  CudaCandidate candidate = bound_by_fmas(1000);
  candidate.work.cols = 36;
  candidate.grouping.nnc_sum = 36;
  const double plain = spjit::estimate_cuda_cycles(candidate, cuda_limits());
  candidate.layer.convolution = padded_3x3(4, 16, 16);

  // 8 warps x (a test and a move for 8 taps + a quarter of 36 loads) / 4 schedulers.
  EXPECT_DOUBLE_EQ(spjit::estimate_cuda_cycles(candidate, cuda_limits()), plain + 2 * (16 + 9));
  // 36 rows of 256 floats at 64 bytes a cycle are what four channels of an image are, and C.
  candidate.work.nnz = candidate.grouping.tile_nnz_max = 0;
  candidate.layer.convolution.reset();
  EXPECT_DOUBLE_EQ(spjit::estimate_cuda_cycles(candidate, cuda_limits()), (36 + 4) * 16);
  candidate.layer.convolution = spjit::Convolution{.channels = 4,
                                                   .height = 16,
                                                   .width = 16,
                                                   .kernel_height = 3,
                                                   .kernel_width = 3,
                                                   .pad_bottom = 2,
                                                   .pad_right = 2};
  EXPECT_DOUBLE_EQ(spjit::estimate_cuda_cycles(candidate, cuda_limits()), 2 * (36 + 4 + 16 + 9));
}

TEST(CudaPrior, ScoresMoreWorkLower) {
  const std::vector<CudaCandidate> ranked =
      spjit::rank_by_prior({bound_by_fmas(2000), bound_by_fmas(1000)}, cuda_limits());

  EXPECT_EQ(ranked.front().work.nnz, 1000);
  EXPECT_GT(ranked.front().score, ranked.back().score);
}

TEST(CudaPrior, ScoresFewResidentWarpsLowerWhichHideLessOfTheLatency) {
  CudaCandidate few = bound_by_fmas(1000);
  few.occupancy.active_blocks = 1;
  few.occupancy.active_warps = 1;

  EXPECT_GT(spjit::estimate_cuda_cycles(few, cuda_limits()),
            spjit::estimate_cuda_cycles(bound_by_fmas(1000), cuda_limits()));
}

TEST(CudaPrior, CountsTheBlocksOfTheBusiestSm) {
  CudaCandidate candidate = bound_by_fmas(1000);
  candidate.column_tiles = 133;
  candidate.blocks = 133;

  // The second block of one SM also doubles what is in flight, which was enough before.
  EXPECT_DOUBLE_EQ(spjit::estimate_cuda_cycles(candidate, cuda_limits()), 4032);
}

TEST(CudaPrior, ScoresCodeThatOutgrowsTheCachesLower) {
  CudaCandidate cached = bound_by_fmas(1000);
  cached.code_bytes = 128 << 10;
  CudaCandidate in_l2 = cached;
  in_l2.code_bytes = 1 << 20;
  CudaCandidate in_dram = cached;
  in_dram.code_bytes = 100 << 20;
  const CudaDeviceInfo limits = cuda_limits();

  EXPECT_LT(spjit::estimate_cuda_cycles(cached, limits),
            spjit::estimate_cuda_cycles(in_l2, limits));
  EXPECT_LT(spjit::estimate_cuda_cycles(in_l2, limits),
            spjit::estimate_cuda_cycles(in_dram, limits));
}

TEST(CudaPrior, BreaksTiesByRegistersThenByName) {
  CudaCandidate first = bound_by_fmas(1000);
  first.registers.accumulators = 30;
  CudaCandidate second = first;
  second.registers.accumulators = 20;
  CudaCandidate third = second;
  third.tile.unit_nonzeros = 1000;

  const std::vector<CudaCandidate> ranked =
      spjit::rank_by_prior({first, second, third}, cuda_limits());

  EXPECT_EQ(ranked_names_of(ranked), ranked_names_of({third, second, first}));
}

TEST(CudaPrior, RanksAlikeWhateverTheOrderItIsGiven) {
  std::vector<CudaCandidate> survivors =
      cuda_space(cuda_problem(random_matrix(512, 512, 0.9), 512)).survivors();
  const std::vector<CudaCandidate> ranked = spjit::rank_by_prior(survivors, cuda_limits());

  std::ranges::reverse(survivors);

  EXPECT_GT(ranked.size(), 5U);
  EXPECT_EQ(ranked_names_of(spjit::rank_by_prior(survivors, cuda_limits())),
            ranked_names_of(ranked));
  EXPECT_TRUE(std::ranges::is_sorted(ranked, std::greater<>(), &CudaCandidate::score));
}

TEST(CudaPrior, PutsWhatCannotRunLast) {
  CudaCandidate impossible = bound_by_fmas(1);
  impossible.occupancy.active_blocks = 0;

  const std::vector<CudaCandidate> ranked =
      spjit::rank_by_prior({impossible, bound_by_fmas(1000)}, cuda_limits());

  EXPECT_EQ(ranked.back().work.nnz, 1);
}

}  // namespace

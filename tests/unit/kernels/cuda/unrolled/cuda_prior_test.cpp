#include "kernels/cuda/unrolled/cuda_prior.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "clock/clock_constants.hpp"
#include "tests/support/cuda/cuda_space_testing.hpp"
#include "tests/support/padded_3x3.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::ClockConstants;
using spjit::CudaCandidate;
using spjit::CudaCost;
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

CudaCost cost_of(const CudaCandidate& candidate) {
  return spjit::estimate_cuda_cost(candidate, cuda_limits());
}

std::vector<std::string> ranked_names_of(const std::vector<CudaCandidate>& candidates) {
  std::vector<std::string> names;
  for (const CudaCandidate& candidate : candidates) names.push_back(to_string(candidate.tile));
  return names;
}

/// The clock's constants of the H100 that cuda_limits() is.
ClockConstants device() { return *spjit::clock_constants(90); }

TEST(CudaPrior, CountsACycleAnInstructionOfAWarpOnEachScheduler) {
  // 8 warps x (1000 FMAs + 4 loads + 4 stores) / 4 schedulers.
  EXPECT_DOUBLE_EQ(cost_of(bound_by_fmas(1000)).issue, 2016);
}

TEST(CudaPrior, CountsTwoCyclesAnFmaWhereAPartitionHas16Lanes) {
  EXPECT_DOUBLE_EQ(
      spjit::estimate_cuda_cost(bound_by_fmas(1000), spjit::parse_cuda_target("sm_75:rtx2080ti"))
          .issue,
      4016);
}

TEST(CudaPrior, CountsALoadForFourValuesAtRunTime) {
  CudaCandidate candidate = bound_by_fmas(1000);
  candidate.layer.runtime_values = true;

  // 8 warps x (1000 FMAs + 250 loads of values + 4 loads + 4 stores) / 4 schedulers.
  EXPECT_DOUBLE_EQ(cost_of(candidate).issue, 2516);
  // 4 rows of B and 4 of C of 256 floats, and 1000 values.
  EXPECT_DOUBLE_EQ(cost_of(candidate).memory, (8 * 256 + 1000) * 4 / device().l2_bytes_a_cycle);
}

TEST(CudaPrior, CountsPredicatesOfLoadsAndTheBytesOfAnImage) {
  CudaCandidate candidate = bound_by_fmas(1000);
  candidate.work.cols = 36;
  candidate.grouping.nnc_sum = 36;
  const CudaCost plain = cost_of(candidate);
  // 36 rows of 256 floats, and C.
  EXPECT_DOUBLE_EQ(plain.memory, (36 + 4) * 1024 / device().l2_bytes_a_cycle);
  candidate.layer.convolution = padded_3x3(4, 16, 16);

  // 8 warps x (a test and a move for 8 taps + a quarter of 36 loads) / 4 schedulers.
  EXPECT_DOUBLE_EQ(cost_of(candidate).issue, plain.issue + 2 * (16 + 9));
  // Of an image of 4 channels of 16 x 16 there are four rows of 256 floats.
  EXPECT_DOUBLE_EQ(cost_of(candidate).memory, (4 + 4) * 1024 / device().l2_bytes_a_cycle);
}

TEST(CudaPrior, CountsTheWaitsOfTheLargestTile) {
  CudaCandidate candidate = bound_by_fmas(1000);
  candidate.grouping.nnc_sum = candidate.grouping.nnc_max = 100;
  candidate.registers.b_in_flight = 5;
  candidate.register_cap = 55;

  // Five loads at once and one more for twelve of the 50 registers that are left.
  const double waits = device().l2_latency * (1 + 100 / (5 + 0.083 * 50));
  EXPECT_DOUBLE_EQ(cost_of(candidate).latency, waits);
  candidate.column_tiles = candidate.blocks = std::int64_t{132} * 5;
  // Five blocks an SM, of which it holds four.
  EXPECT_DOUBLE_EQ(cost_of(candidate).latency, 2 * waits);
  // A warp issues an instruction a cycle at most.
  candidate.work.nnz = candidate.grouping.tile_nnz_max = 10'000;
  EXPECT_DOUBLE_EQ(cost_of(candidate).latency, 2 * (10'000 + 100 + 4));
}

TEST(CudaPrior, IsTheRootOfTheSumOfSquares) {
  const CudaCost cost{.issue = 1, .memory = 2, .dram = 4, .fetch = 6, .latency = 8};

  EXPECT_DOUBLE_EQ(cost.cycles(), 11);
}

TEST(CudaPrior, CountsDramWhereHalfOfL2DoesNotHoldBAndC) {
  CudaCandidate candidate = bound_by_fmas(1000);
  candidate.registers.b_in_flight = 5;
  candidate.register_cap = 5;
  const std::int64_t half = cuda_limits().l2_bytes / 2;
  const auto with_bytes = [&](std::int64_t bytes) {
    candidate.work.cols = bytes / 1024 - candidate.work.m;
    return cost_of(candidate);
  };

  EXPECT_EQ(with_bytes(half).dram, 0);
  const double share = static_cast<double>(half) / 132 / device().dram_bytes_a_cycle;
  EXPECT_DOUBLE_EQ(with_bytes(2 * half).dram, 2 * share);
  EXPECT_DOUBLE_EQ(with_bytes(4 * half).dram, 4 * share);
  EXPECT_DOUBLE_EQ(with_bytes(half + half / 2).dram, 1.5 * share / 2);
  // 4 loads, five at once.
  candidate.work.nnz = candidate.grouping.tile_nnz_max = 4;
  candidate.grouping.nnc_max = 4;
  EXPECT_DOUBLE_EQ(with_bytes(half).latency, 1.8 * device().l2_latency);
  EXPECT_DOUBLE_EQ(with_bytes(2 * half).latency, 1.8 * device().dram_latency);
}

TEST(CudaPrior, FetchesCodeFromTheLevelThatHoldsAll) {
  CudaCandidate candidate = bound_by_fmas(1000);
  candidate.column_tiles = candidate.blocks = std::int64_t{132} * 4;
  const auto fetch_of = [&](std::int64_t bytes) {
    candidate.code_bytes = bytes;
    return cost_of(candidate).fetch;
  };

  EXPECT_DOUBLE_EQ(fetch_of(10'000), 4 * 10'000 / device().l1_code_bytes_a_cycle);
  EXPECT_DOUBLE_EQ(fetch_of(1'000'000), 4 * 1'000'000 / device().l2_code_bytes_a_cycle);
}

TEST(CudaPrior, ScoresMoreWorkLower) {
  const std::vector<CudaCandidate> ranked =
      spjit::rank_by_prior({bound_by_fmas(2000), bound_by_fmas(1000)}, cuda_limits());

  EXPECT_EQ(ranked.front().work.nnz, 1000);
  EXPECT_GT(ranked.front().score, ranked.back().score);
}

TEST(CudaPrior, ScoresFewResidentWarpsLowerWhichHideLessOfTheLatency) {
  CudaCandidate many = bound_by_fmas(1000);
  many.column_tiles = many.blocks = std::int64_t{132} * 4;
  CudaCandidate few = many;
  few.occupancy.active_blocks = 1;
  few.occupancy.active_warps = 1;

  EXPECT_GT(spjit::estimate_cuda_cycles(few, cuda_limits()),
            spjit::estimate_cuda_cycles(many, cuda_limits()));
}

TEST(CudaPrior, CountsTheBlocksOfTheBusiestSm) {
  CudaCandidate candidate = bound_by_fmas(1000);
  candidate.column_tiles = candidate.blocks = 133;

  EXPECT_DOUBLE_EQ(cost_of(candidate).issue, 4032);
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

TEST(CudaPrior, OfEqualOnesPrefersWideTilesThenFewTilesABlock) {
  CudaCandidate narrow = bound_by_fmas(1000);
  narrow.tile.n1 = 96;
  CudaCandidate wide = bound_by_fmas(1000);
  wide.tile.n1 = 128;
  wide.registers.accumulators = 30;
  for (CudaCandidate* candidate : {&narrow, &wide}) candidate->blocks = 0;  // all cost nothing
  CudaCandidate pair = wide;
  pair.tile.tiles_a_block = 2;

  const std::vector<CudaCandidate> ranked =
      spjit::rank_by_prior({narrow, pair, wide}, cuda_limits());

  EXPECT_EQ(ranked_names_of(ranked), ranked_names_of({wide, pair, narrow}));
}

CudaDeviceInfo simulated_card() { return spjit::parse_cuda_target("sm_75:rtx2080ti"); }

/// Cycles of 512 x 512 at 90 %, n = 512, in tiles of 16 x 128, for one SM: what the first of all
/// blocks costs where latency is hidden.
double cycles_of_tiles(std::int64_t m1, std::int64_t tiles_a_block) {
  CudaCandidate candidate;
  candidate.tile.m1 = m1;
  candidate.tile.n1 = 128;
  candidate.tile.tiles_a_block = tiles_a_block;
  candidate.work = {.rows = 512, .cols = 512, .nnz = 26214, .n = 512, .m = 512};
  candidate.row_tiles = 512 / m1;
  candidate.column_tiles = 4;
  candidate.blocks = candidate.row_tiles / tiles_a_block * 4;
  candidate.grouping.tiles = candidate.row_tiles;
  candidate.grouping.nnc_mean = 512 * (1 - std::pow(0.9, static_cast<double>(m1)));
  candidate.grouping.nnc_sum = static_cast<std::int64_t>(candidate.grouping.nnc_mean *
                                                         static_cast<double>(candidate.row_tiles));
  candidate.grouping.nnc_max = static_cast<std::int64_t>(candidate.grouping.nnc_mean);
  candidate.grouping.tile_nnz_max = 26214 / candidate.row_tiles;
  candidate.registers = {.accumulators = m1, .b_in_flight = 5, .values = 0, .addressing = 9};
  candidate.register_cap = 64;
  candidate.occupancy = {.active_blocks = 8 / tiles_a_block, .active_warps = 32};
  CudaDeviceInfo one_sm = simulated_card();
  one_sm.sms = 1;
  return spjit::estimate_cuda_cycles(candidate, one_sm);
}

TEST(CudaPrior, FollowsTheSimulatedCyclesOfTilesThatShareB) {
  // 18 to 30 % fewer, simulated, where fetch is not the limit.
  EXPECT_NEAR(cycles_of_tiles(16, 2) / cycles_of_tiles(16, 1), 0.82, 0.02);
  EXPECT_NEAR(cycles_of_tiles(16, 4) / cycles_of_tiles(16, 1), 0.70, 0.02);
  // With many rows a tile FMAs are soon the limit.
  EXPECT_GT(cycles_of_tiles(64, 4) / cycles_of_tiles(64, 1),
            cycles_of_tiles(16, 4) / cycles_of_tiles(16, 1));
  EXPECT_GT(cycles_of_tiles(128, 4) / cycles_of_tiles(128, 1), 0.8);
}

/// The tile 64x64 of 512 x 512 at 90 %, n = 512: 64 + 5 + 9 registers, a block an SM.
CudaCandidate hides_little(std::int64_t register_cap) {
  CudaCandidate candidate;
  candidate.tile.m1 = 64;
  candidate.tile.n1 = 64;
  candidate.work = {.rows = 512, .cols = 512, .nnz = 26214, .n = 512, .m = 512};
  candidate.row_tiles = candidate.grouping.tiles = 8;
  candidate.column_tiles = 8;
  candidate.blocks = 64;
  candidate.grouping.nnc_mean = 511;
  candidate.grouping.nnc_sum = std::int64_t{8} * 511;
  candidate.grouping.nnc_max = 512;
  candidate.grouping.tile_nnz_max = 3277;
  candidate.occupancy = {.active_blocks = 12, .active_warps = 24};
  candidate.registers = {.accumulators = 64, .b_in_flight = 5, .values = 0, .addressing = 9};
  candidate.register_cap = register_cap;
  return candidate;
}

TEST(CudaPrior, FollowsTheSimulatedCyclesOfRegisterCaps) {
  // 30.8k, 20.6k and 15.5k cycles, simulated.
  const double tight = spjit::estimate_cuda_cycles(hides_little(80), simulated_card());

  EXPECT_NEAR(spjit::estimate_cuda_cycles(hides_little(128), simulated_card()) / tight, 20.6 / 30.8,
              0.03);
  EXPECT_NEAR(spjit::estimate_cuda_cycles(hides_little(168), simulated_card()) / tight, 15.5 / 30.8,
              0.03);
}

TEST(CudaPrior, CountsTheLargestTileWhereverItIsBound) {
  CudaCandidate even = bound_by_fmas(1000);
  even.column_tiles = 200;
  even.blocks = 400;
  even.grouping.tile_nnz_max = 500;
  CudaCandidate uneven = even;
  uneven.grouping.tile_nnz_max = 700;

  // 8 warps x 200 FMAs / 4 schedulers.
  EXPECT_DOUBLE_EQ(cost_of(uneven).issue, cost_of(even).issue + 400);
  // Bound by B: 100 of 256 floats more.
  even.grouping.nnc_sum = 2000;
  even.grouping.nnc_max = 1000;
  uneven = even;
  uneven.grouping.nnc_max = 1100;
  EXPECT_DOUBLE_EQ(cost_of(uneven).memory,
                   cost_of(even).memory + 100 * 1024 / device().l2_bytes_a_cycle);
}

TEST(CudaPrior, TakesTheLowerCapOfEqualOnes) {
  CudaCandidate tight = bound_by_fmas(1000);
  tight.register_cap = 128;
  CudaCandidate loose = tight;
  loose.register_cap = 168;
  loose.tile.cap = spjit::CudaCap::grid;

  EXPECT_EQ(spjit::rank_by_prior({loose, tight}, cuda_limits()).front().register_cap, 128);
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

#include "kernels/cuda/unrolled/cuda_tile_space.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "kernels/cuda/unrolled/cuda_units.hpp"
#include "spjit/error.hpp"
#include "spjit/matrix_io.hpp"
#include "tests/support/cuda/cuda_space_testing.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::CsrMatrix;
using spjit::CudaCandidate;
using spjit::CudaDeviceInfo;
using spjit::CudaRule;
using spjit::CudaTile;
using spjit::CudaTileSpace;
using spjit::Problem;
using spjit::ReorderAlgorithm;
using spjit::SearchPolicy;
using spjit::testing_support::cuda_limits;
using spjit::testing_support::cuda_policy;
using spjit::testing_support::cuda_problem;
using spjit::testing_support::cuda_space;
using spjit::testing_support::random_matrix;
using testing::ElementsAre;
using testing::IsEmpty;

CsrMatrix dense(std::int64_t rows, std::int64_t cols) { return random_matrix(rows, cols, 0); }

CudaTile cuda_tile_of(std::int64_t m1, std::int64_t n1) {
  CudaTile tile;
  tile.m1 = m1;
  tile.n1 = n1;
  return tile;
}

CudaCandidate examine(const Problem& problem, const CudaTile& tile,
                      const CudaDeviceInfo& limits = cuda_limits(1),
                      const SearchPolicy& policy = cuda_policy()) {
  return spjit::examine_cuda_tile(problem, tile, policy, limits,
                                  spjit::group_rows(*problem.a, tile.m1, ReorderAlgorithm::none));
}

void expect_dropped(const CudaCandidate& candidate, CudaRule rule, const std::string& numbers) {
  ASSERT_TRUE(candidate.dropped);
  EXPECT_EQ(candidate.dropped->rule, rule);
  EXPECT_EQ(candidate.dropped->numbers, numbers);
}

std::set<std::int64_t> heights_of(const CudaTileSpace& space) {
  std::set<std::int64_t> result;
  for (const CudaCandidate& candidate : space.candidates) result.insert(candidate.tile.m1);
  return result;
}

std::vector<std::string> names_of(const std::vector<CudaCandidate>& candidates) {
  std::vector<std::string> names;
  for (const CudaCandidate& candidate : candidates) names.push_back(to_string(candidate.tile));
  return names;
}

TEST(CudaRules, RegistersDropWhatAThreadHasNoRoomFor) {
  // 242 accumulators + 5 elements of B + 9.
  expect_dropped(examine(cuda_problem(dense(242, 20), 32), cuda_tile_of(242, 32)),
                 CudaRule::registers, "predicts 256 registers a thread, the device has 255");
}

TEST(CudaRules, RegistersKeepAThreadThatTakesAllThereAre) {
  // 241 + 5 + 9 is what a thread can have.
  const CudaCandidate candidate = examine(cuda_problem(dense(241, 20), 32), cuda_tile_of(241, 32));

  EXPECT_FALSE(candidate.dropped) << candidate.dropped->numbers;
  EXPECT_EQ(candidate.registers.total(), 255);
}

TEST(CudaRules, RegistersDropWhatABlockHasNoRoomForInAllocationUnits) {
  // 68 + 5 + 9 = 82, allocated as 88.
  expect_dropped(examine(cuda_problem(dense(68, 20), 1024), cuda_tile_of(68, 1024)),
                 CudaRule::registers, "88 registers x 1024 threads = 90112, a block has 65536");
}

TEST(CudaRules, RegistersKeepABlockThatFillsTheFileExactly) {
  // 50 + 5 + 9 = 64, times 1024 is all of 65536.
  const CudaCandidate candidate =
      examine(cuda_problem(dense(50, 20), 1024), cuda_tile_of(50, 1024));

  EXPECT_FALSE(candidate.dropped);
  EXPECT_EQ(candidate.registers.total(), 64);
  EXPECT_EQ(candidate.min_blocks, 1);
}

TEST(CudaRules, TheCodeBudgetCountsInstructions) {
  // 16 FMAs, 4 loads, 4 stores and 16 for the function, of 16 bytes each.
  SearchPolicy policy = cuda_policy();
  policy.code_budget_bytes = 640;
  EXPECT_FALSE(
      examine(cuda_problem(dense(4, 4), 32), cuda_tile_of(4, 32), cuda_limits(1), policy).dropped);

  policy.code_budget_bytes = 639;
  expect_dropped(
      examine(cuda_problem(dense(4, 4), 32), cuda_tile_of(4, 32), cuda_limits(1), policy),
      CudaRule::code_budget, "about 640 bytes of code, the budget is 639");
}

TEST(CudaRules, OccupancyWantsABlockForEverySecondSm) {
  expect_dropped(examine(cuda_problem(dense(48, 20), 512), cuda_tile_of(4, 128), cuda_limits()),
                 CudaRule::occupancy, "48 blocks (12 x 4), 66 wanted (half of 132 SMs)");
  EXPECT_FALSE(
      examine(cuda_problem(dense(66, 20), 256), cuda_tile_of(2, 128), cuda_limits()).dropped);
}

TEST(CudaRules, OccupancyCountsTheBlocksThatWriteEmptyRows) {
  const CsrMatrix empty = {640, 8, std::vector<std::int64_t>(641, 0), {}, {}};

  const CudaCandidate candidate =
      examine(cuda_problem(empty, 64), cuda_tile_of(1, 32), cuda_limits(40));

  EXPECT_FALSE(candidate.dropped);
  EXPECT_EQ(candidate.row_tiles, 0);
  EXPECT_EQ(candidate.blocks, 20);
}

TEST(CudaRules, OccupancyWantsWholeWarps) {
  expect_dropped(examine(cuda_problem(dense(4, 4), 48), cuda_tile_of(4, 48)), CudaRule::occupancy,
                 "48 threads, no multiple of a warp's 32");
}

TEST(CudaRules, BalanceDropsRowTilesOfUnequalWork) {
  // 1 and 3 nonzeros: mean 2, deviation 1.
  const CsrMatrix matrix = {2, 3, {0, 1, 4}, {0, 0, 1, 2}, {1, 2, 3, 4}};

  expect_dropped(examine(cuda_problem(matrix, 32), cuda_tile_of(1, 32), cuda_limits(2)),
                 CudaRule::balance, "row tiles' nonzeros vary by 0.50, at most 0.25");
}

TEST(CudaRules, BalanceIsNoRuleWhereAnSmHasSeveralBlocks) {
  const CsrMatrix matrix = {2, 3, {0, 1, 4}, {0, 0, 1, 2}, {1, 2, 3, 4}};

  const CudaCandidate candidate =
      examine(cuda_problem(matrix, 32), cuda_tile_of(1, 32), cuda_limits(1));

  EXPECT_FALSE(candidate.dropped);
  EXPECT_TRUE(spjit::unbalanced(candidate));
}

TEST(CudaRules, BalanceDropsColumnsThatAreMostlyPadding) {
  expect_dropped(examine(cuda_problem(dense(4, 4), 20), cuda_tile_of(4, 32)), CudaRule::balance,
                 "columns padded by 60.0 %, at most 25 %");
}

TEST(CudaTileSpace, TriesTheHeightsBelowTheRowsAndTheRowsThemselves) {
  EXPECT_EQ(heights_of(cuda_space(cuda_problem(dense(20, 8), 64))),
            (std::set<std::int64_t>{2, 3, 4, 6, 8, 12, 16, 20}));
  EXPECT_EQ(*heights_of(cuda_space(cuda_problem(dense(129, 8), 64))).rbegin(), 128);
}

TEST(CudaTileSpace, HasATileForOneRowAndForNone) {
  const CsrMatrix empty = {100, 8, std::vector<std::int64_t>(101, 0), {}, {}};

  const CudaTileSpace one = cuda_space(cuda_problem(dense(1, 8), 64));
  const CudaTileSpace none = cuda_space(cuda_problem(empty, 64));

  EXPECT_EQ(heights_of(one), std::set<std::int64_t>{1});
  EXPECT_FALSE(one.survivors().empty());
  EXPECT_EQ(heights_of(none), std::set<std::int64_t>{1});
  EXPECT_FALSE(none.survivors().empty());
  EXPECT_EQ(none.survivors().front().row_tiles, 0);
}

TEST(CudaTileSpace, RelaxesBalanceFirst) {
  const CudaTileSpace space = cuda_space(cuda_problem(dense(256, 8), 1));

  EXPECT_THAT(space.relaxed, ElementsAre(CudaRule::balance));
  EXPECT_FALSE(space.survivors().empty());
}

TEST(CudaTileSpace, RelaxesOccupancyAloneWhereBalanceIsNotInTheWay) {
  const CudaTileSpace space = cuda_space(cuda_problem(dense(4, 8), 32));

  EXPECT_THAT(space.relaxed, ElementsAre(CudaRule::occupancy));
  for (const CudaCandidate& candidate : space.survivors()) EXPECT_EQ(candidate.tile.n1, 32);
}

TEST(CudaTileSpace, RelaxesBothWhereOneIsNotEnough) {
  const CudaTileSpace space = cuda_space(cuda_problem(dense(4, 8), 1));

  EXPECT_THAT(space.relaxed, ElementsAre(CudaRule::balance, CudaRule::occupancy));
  EXPECT_FALSE(space.survivors().empty());
}

TEST(CudaTileSpace, NeverRelaxesTheCodeBudget) {
  SearchPolicy policy = cuda_policy();
  policy.code_budget_bytes = 100;

  const CudaTileSpace space = cuda_space(cuda_problem(dense(256, 64), 64), policy);

  EXPECT_THAT(space.survivors(), IsEmpty());
  EXPECT_THAT(space.relaxed, IsEmpty());
}

TEST(CudaTileSpace, AsksForNothingOnASingleSm) {
  const CudaTileSpace space =
      cuda_space(cuda_problem(dense(4, 8), 32), cuda_policy(), cuda_limits(1));

  EXPECT_THAT(space.relaxed, IsEmpty());
}

TEST(CudaTileSpace, PutsADenseRowWithAllOthersIntoOneTile) {
  CsrMatrix matrix = {64, 512, {0}, {}, {}};
  for (std::int32_t row = 0; row < 64; ++row) {
    for (std::int32_t column = 0; column < (row == 10 ? 512 : 1); ++column) {
      matrix.col_idxs.push_back(column);
      matrix.values.push_back(1);
    }
    matrix.row_ptrs.push_back(std::ssize(matrix.col_idxs));
  }

  // Where 132 SMs have one block at most, the one with the dense row is the time.
  for (const CudaCandidate& candidate : cuda_space(cuda_problem(matrix, 4096)).candidates) {
    if (candidate.blocks < 66) continue;
    EXPECT_EQ(candidate.dropped.has_value(), candidate.blocks <= 132 && candidate.row_tiles > 1)
        << to_string(candidate.tile);
  }
}

TEST(CudaTileSpace, TakesGivenHeightsAndWidthsAsTheOnlyOnes) {
  SearchPolicy policy = cuda_policy();
  policy.values["m1"] = "10";
  policy.values["n1"] = "160";
  policy.reorder = ReorderAlgorithm::similarity;

  EXPECT_THAT(names_of(cuda_space(cuda_problem(dense(256, 8), 512), policy).candidates),
              ElementsAre("rows=10 columns=160", "rows=10 columns=160 cap=grid",
                          "rows=10 columns=160 tiles=2", "rows=10 columns=160 tiles=2 cap=grid",
                          "rows=10 columns=160 tiles=4", "rows=10 columns=160 tiles=4 cap=grid"));
}

/// Of the candidates of one width.
std::set<std::int64_t> tiles_a_block_of(const CudaTileSpace& space, std::int64_t n1) {
  std::set<std::int64_t> result;
  for (const CudaCandidate& candidate : space.candidates) {
    if (candidate.tile.n1 == n1) result.insert(candidate.tile.tiles_a_block);
  }
  return result;
}

TEST(CudaTileSpace, HasAsManyTilesABlockAsFit) {
  SearchPolicy policy = cuda_policy();
  policy.values["m1"] = "8";
  const Problem problem = cuda_problem(dense(24, 8), 1024);
  Problem tokens = cuda_problem(dense(64, 8), 1024);
  tokens.b.layout = spjit::Layout::tokens_major;

  // Three row tiles; 1024 threads a block; 17 KB of tokens a tile of 128.
  const CudaTileSpace few = cuda_space(problem, policy);
  const CudaTileSpace many = cuda_space(cuda_problem(dense(64, 8), 1024), policy);
  const CudaTileSpace of_tokens = cuda_space(tokens, policy);

  EXPECT_EQ(tiles_a_block_of(few, 128), (std::set<std::int64_t>{1, 2}));
  EXPECT_EQ(tiles_a_block_of(many, 256), (std::set<std::int64_t>{1, 2, 4}));
  EXPECT_EQ(tiles_a_block_of(many, 384), (std::set<std::int64_t>{1, 2}));
  EXPECT_EQ(tiles_a_block_of(many, 768), (std::set<std::int64_t>{1}));
  EXPECT_EQ(tiles_a_block_of(of_tokens, 64), (std::set<std::int64_t>{1, 2, 4}));
  EXPECT_EQ(tiles_a_block_of(of_tokens, 128), (std::set<std::int64_t>{1, 2}));
}

TEST(CudaTileSpace, CountsBlocksOfSeveralTiles) {
  CudaTile tile = cuda_tile_of(8, 64);
  tile.tiles_a_block = 4;

  const CudaCandidate candidate = examine(cuda_problem(dense(72, 8), 128), tile);

  EXPECT_EQ(candidate.row_tiles, 9);
  EXPECT_EQ(candidate.blocks, 3 * 2);
  EXPECT_EQ(candidate.occupancy.active_warps, candidate.occupancy.active_blocks * 8);
}

TEST(CudaRules, CountRegistersAndThreadsOfAllTilesOfABlock) {
  CudaTile tile = cuda_tile_of(68, 256);
  EXPECT_FALSE(examine(cuda_problem(dense(272, 20), 256), tile).dropped);

  tile.tiles_a_block = 4;

  expect_dropped(examine(cuda_problem(dense(272, 20), 256), tile), CudaRule::registers,
                 "88 registers x 1024 threads = 90112, a block has 65536");
}

TEST(CudaTileSpace, RefusesWhatCannotBeEmitted) {
  const CsrMatrix matrix = dense(4, 4);
  SearchPolicy tall = cuda_policy();
  tall.values["m1"] = "1025";
  SearchPolicy wide = cuda_policy();
  wide.values["n1"] = "0";

  EXPECT_THROW((void)cuda_space(cuda_problem(matrix, 64), tall), spjit::InvalidArgument);
  EXPECT_THROW((void)cuda_space(cuda_problem(matrix, 64), wide), spjit::InvalidArgument);
  EXPECT_THROW((void)cuda_space(cuda_problem(matrix, 0)), spjit::InvalidArgument);
}

class RealCudaSpaces : public testing::TestWithParam<const char*> {};

TEST_P(RealCudaSpaces, TellAConsistentStory) {
  const auto path = spjit::testing_support::data_directory() / "dlmc" / GetParam();
  if (!exists(path)) GTEST_SKIP() << path << " is not there: set SPJIT_TEST_DATA";
  const CsrMatrix matrix = spjit::load_matrix(path);
  const Problem problem = cuda_problem(matrix, 256);

  const CudaTileSpace space = cuda_space(problem);

  EXPECT_FALSE(space.survivors().empty());
  for (const CudaCandidate& c : space.candidates) {
    const spjit::KernelPlan plan = spjit::build_plan(
        matrix, spjit::group_rows(matrix, c.tile.m1, c.tile.reorder), matrix.cols);
    const spjit::CudaGrid grid = spjit::cuda_grid(plan, c.tile, problem.n.value);
    EXPECT_EQ(c.registers.total(), spjit::predict_registers(plan.grouping, c.tile).total());
    EXPECT_EQ(c.blocks, grid.x * grid.y);
    EXPECT_EQ(c.code_bytes,
              spjit::estimate_code_bytes(plan, {0, spjit::count_functions(plan), plan.nnz()},
                                         c.tile.runtime_sizes));
    if (c.dropped) {
      EXPECT_FALSE(c.dropped->numbers.empty());
    } else {
      EXPECT_GE(c.occupancy.active_blocks, 1);
      EXPECT_GE(spjit::register_cap(cuda_limits(), c.tile.threads(), c.min_blocks),
                c.registers.total());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Dlmc, RealCudaSpaces,
    testing::Values("rn50/magnitude_pruning/0.8/bottleneck_1_block_group1_1_1.smtx",
                    "rn50/magnitude_pruning/0.7/initial_conv.smtx",
                    "transformer/magnitude_pruning/0.9/"
                    "body_encoder_layer_0_self_attention_multihead_attention_q_fully_connected."
                    "smtx"));

}  // namespace

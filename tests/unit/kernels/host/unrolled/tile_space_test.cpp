#include "kernels/host/unrolled/tile_space.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "kernels/host/unrolled/host_emitter.hpp"
#include "kernels/host/unrolled/host_heuristic.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::CompileOptions;
using spjit::CsrMatrix;
using spjit::HostDeviceInfo;
using spjit::HostIsa;
using spjit::HostTile;
using spjit::Problem;
using spjit::ReorderAlgorithm;
using spjit::RowGrouping;
using spjit::TileCandidate;
using spjit::TileRule;
using spjit::TileSpace;
using spjit::WeightForm;
using spjit::testing_support::host_tile;
using spjit::testing_support::problem_of;
using spjit::testing_support::random_matrix;

HostDeviceInfo limits_of(HostIsa isa) {
  HostDeviceInfo limits;
  limits.isa = isa;
  limits.lanes = spjit::lanes_of(isa);
  limits.registers = spjit::registers_of(isa);
  return limits;
}

CompileOptions avx512_options(int threads = 1) {
  CompileOptions options;
  options.resources.threads = threads;
  options.target = spjit::Target(HostIsa::avx512);
  return options;
}

TileCandidate examine(const Problem& problem, const HostTile& tile, const CompileOptions& options) {
  const RowGrouping grouping = spjit::group_rows(*problem.a, tile.m1, options.policy.reorder);
  return spjit::examine_host_tile(problem, tile, options, limits_of(options.target.isa()),
                                  spjit::compute_statistics(*problem.a, grouping));
}

TileSpace enumerate(const Problem& problem, const CompileOptions& options) {
  return spjit::enumerate_host_tiles(
      problem, options, limits_of(options.target.isa()), [&](std::int64_t m1) {
        const RowGrouping grouping = spjit::group_rows(*problem.a, m1, options.policy.reorder);
        return spjit::compute_statistics(*problem.a, grouping);
      });
}

TEST(TileRules, ATileThatFillsTheRegistersStays) {
  const TileCandidate candidate =
      examine(problem_of(random_matrix(60, 40, 0.5), 64), host_tile(30, 1), avx512_options());

  EXPECT_FALSE(candidate.dropped);
  EXPECT_EQ(candidate.registers, 32);
  EXPECT_EQ(candidate.panels, 4);
  EXPECT_EQ(candidate.grouping.tiles, 2);
}

TEST(TileRules, RegistersDropATileWithTheNumbers) {
  const TileCandidate candidate =
      examine(problem_of(random_matrix(62, 40, 0.5), 64), host_tile(31, 1), avx512_options());

  ASSERT_TRUE(candidate.dropped);
  EXPECT_EQ(candidate.dropped->rule, TileRule::registers);
  EXPECT_EQ(candidate.dropped->numbers, "needs 33 vector registers, avx512 has 32");
}

TEST(TileRules, TheCodeBudgetDropsATileWithTheNumbers) {
  CompileOptions options = avx512_options();
  options.policy.code_budget_bytes = 100;

  const TileCandidate candidate =
      examine(problem_of(random_matrix(60, 40, 0.5), 64), host_tile(28, 1), options);

  ASSERT_TRUE(candidate.dropped);
  EXPECT_EQ(candidate.dropped->rule, TileRule::code_budget);
  EXPECT_EQ(candidate.dropped->numbers,
            "about " + std::to_string(candidate.code_bytes) + " bytes of code, the budget is 100");
}

TEST(TileRules, UtilisationDropsATileThatLeavesThreadsIdle) {
  // 5 tiles for 4 threads: one of them works twice as long as the others.
  const TileCandidate candidate =
      examine(problem_of(random_matrix(10, 40, 0.5), 16), host_tile(2, 1), avx512_options(4));

  ASSERT_TRUE(candidate.dropped);
  EXPECT_EQ(candidate.dropped->rule, TileRule::utilisation);
  EXPECT_DOUBLE_EQ(candidate.utilisation, 0.625);
  EXPECT_EQ(candidate.dropped->numbers,
            "1 panels and 5 tiles keep 4 threads 0.62 busy, expected 0.75");
}

TEST(TileRules, UtilisationTakesTheBetterOfPanelsAndTiles) {
  const CsrMatrix matrix = random_matrix(10, 40, 0.5);

  EXPECT_DOUBLE_EQ(examine(problem_of(matrix, 128), host_tile(2, 1), avx512_options(4)).utilisation,
                   1);
  EXPECT_DOUBLE_EQ(examine(problem_of(matrix, 16), host_tile(2, 1), avx512_options(5)).utilisation,
                   1);
  EXPECT_DOUBLE_EQ(examine(problem_of(matrix, 16), host_tile(2, 1), avx512_options(1)).utilisation,
                   1);
}

TEST(TileRules, BalanceDropsPanelsThatAreMostlyPadding) {
  const TileCandidate candidate =
      examine(problem_of(random_matrix(60, 40, 0.5), 17), host_tile(28, 1), avx512_options());

  ASSERT_TRUE(candidate.dropped);
  EXPECT_EQ(candidate.dropped->rule, TileRule::balance);
  EXPECT_EQ(candidate.dropped->numbers, "2 panels of 16 columns pad n = 17 by 0.88, at most 0.25");
}

TEST(TileSpace, EverySurvivorFitsTheRegistersAndTheNextTallerOnesAreDropped) {
  for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2, HostIsa::generic}) {
    CompileOptions options = avx512_options();
    options.target = spjit::Target(isa);

    const TileSpace space = enumerate(problem_of(random_matrix(300, 800, 0.9), 512), options);

    std::vector<std::string> names;
    std::ptrdiff_t too_tall = 0;
    for (const TileCandidate& candidate : space.candidates) {
      const bool fits = candidate.registers <= spjit::registers_of(isa);
      EXPECT_EQ(candidate.dropped.has_value(), !fits) << to_string(candidate.tile);
      if (candidate.dropped) {
        EXPECT_EQ(candidate.dropped->rule, TileRule::registers);
      }
      too_tall += fits ? 0 : 1;
      names.push_back(to_string(candidate.tile));
    }
    EXPECT_GT(too_tall, 0);
    std::ranges::sort(names);
    EXPECT_TRUE(std::ranges::adjacent_find(names) == names.end());
    EXPECT_GT(names.size(), 10U);
    EXPECT_TRUE(space.relaxed.empty());
    EXPECT_FALSE(space.survivors().empty());
  }
}

TEST(TileSpace, SurvivorsAreTheCandidatesNoRuleDropped) {
  const TileSpace space = enumerate(problem_of(random_matrix(300, 300, 0.9), 96), avx512_options());

  const auto dropped = std::ranges::count_if(
      space.candidates, [](const TileCandidate& c) { return c.dropped.has_value(); });

  EXPECT_GT(dropped, 0);
  EXPECT_EQ(space.survivors().size() + static_cast<std::size_t>(dropped), space.candidates.size());
}

TEST(TileSpace, BalanceIsGivenUpWhereEveryPanelIsPadding) {
  const TileSpace space = enumerate(problem_of(random_matrix(60, 40, 0.5), 1), avx512_options());

  EXPECT_EQ(space.relaxed, (std::vector<TileRule>{TileRule::balance}));
  EXPECT_FALSE(space.survivors().empty());
}

TEST(TileSpace, UtilisationIsGivenUpAfterBalance) {
  // One panel and few tiles at every shape, for far more threads.
  const TileSpace space = enumerate(problem_of(random_matrix(4, 40, 0.5), 16), avx512_options(64));

  EXPECT_EQ(space.relaxed.back(), TileRule::utilisation);
  EXPECT_FALSE(space.survivors().empty());
}

TEST(TileSpace, TheCodeBudgetIsNeverGivenUp) {
  CompileOptions options = avx512_options();
  options.policy.code_budget_bytes = 10;

  const TileSpace space = enumerate(problem_of(random_matrix(60, 40, 0.5), 64), options);

  EXPECT_TRUE(space.survivors().empty());
  for (const TileCandidate& candidate : space.candidates) {
    const bool fits = candidate.registers <= spjit::registers_of(HostIsa::avx512);
    EXPECT_EQ(candidate.dropped->rule, fits ? TileRule::code_budget : TileRule::registers);
  }
}

TEST(TileSpace, TilesAreJoinedAsTheRulesSay) {
  const Problem problem = problem_of(random_matrix(200, 256, 0.98), 128);
  const HostDeviceInfo limits = limits_of(HostIsa::avx512);

  const TileSpace space = enumerate(problem, avx512_options());

  const spjit::Workload work = spjit::workload_of(problem, 1);
  std::int64_t joined = 0;
  for (const TileCandidate& candidate : space.survivors()) {
    EXPECT_EQ(candidate.tile.join_bytes, spjit::joined_code_bytes(work, limits, candidate.tile));
    if (candidate.tile.join_bytes > 0) ++joined;
  }
  EXPECT_GT(joined, 0);
}

TEST(TileSpace, BlocksOfColumnsAreSmallerThanK) {
  const auto blocks_of = [](std::int64_t cols) {
    std::set<std::int64_t> blocks;
    for (const TileCandidate& candidate :
         enumerate(problem_of(random_matrix(16, cols, 0.5), 64), avx512_options()).candidates) {
      blocks.insert(candidate.tile.k_block);
    }
    return blocks;
  };

  EXPECT_EQ(blocks_of(256), (std::set<std::int64_t>{0}));
  EXPECT_EQ(blocks_of(300), (std::set<std::int64_t>{0, 256}));
  EXPECT_EQ(blocks_of(600), (std::set<std::int64_t>{0, 256, 512}));
}

TEST(TileSpace, AForcedPanelWidthLeavesOnlyThatWidthPacked) {
  Problem problem = problem_of(random_matrix(60, 40, 0.5), 128);
  problem.panel_columns = 32;

  const TileSpace space = enumerate(problem, avx512_options());

  ASSERT_FALSE(space.candidates.empty());
  for (const TileCandidate& candidate : space.candidates) {
    EXPECT_EQ(candidate.tile.nv, 2);
    EXPECT_TRUE(candidate.tile.pack_b);
  }
}

TEST(TileSpace, EmptyMatricesHaveCandidates) {
  const CsrMatrix empty{0, 0, {0}, {}, {}};

  EXPECT_FALSE(enumerate(problem_of(empty, 64), avx512_options()).survivors().empty());
}

struct CodeCase {
  HostIsa isa;
  std::int64_t rows;
  std::int64_t cols;
  double sparsity;
  HostTile tile;
};

std::vector<CodeCase> code_cases() {
  std::vector<CodeCase> cases;
  for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2}) {
    for (const double sparsity : {0.5, 0.8, 0.9, 0.95}) {
      for (const std::int64_t nv : {1, 2, 4}) {
        for (const std::int64_t block : {0, 256}) {
          for (const std::int64_t cols : {512, 1024}) {
            HostTile tile = host_tile((spjit::registers_of(isa) - 1 - nv) / nv, nv);
            tile.k_block = block;
            tile.form = nv == 1 ? WeightForm::broadcast : WeightForm::register_;
            cases.push_back({isa, 512, cols, sparsity, tile});
          }
        }
      }
    }
  }
  return cases;
}

double estimate_over_emitted(const CodeCase& c) {
  const CsrMatrix matrix = random_matrix(c.rows, c.cols, c.sparsity);
  CompileOptions options = avx512_options();
  options.target = spjit::Target(c.isa);
  const RowGrouping grouping = spjit::group_rows(matrix, c.tile.m1, ReorderAlgorithm::none);
  const TileCandidate candidate =
      spjit::examine_host_tile(problem_of(matrix, 512), c.tile, options, limits_of(c.isa),
                               spjit::compute_statistics(matrix, grouping));
  const auto plan =
      spjit::build_plan(matrix, grouping, c.tile.k_block > 0 ? c.tile.k_block : matrix.cols);

  const spjit::HostCode code =
      spjit::emit_host(plan, c.tile, c.isa, c.tile.nv * spjit::lanes_of(c.isa) * 4);

  return static_cast<double>(candidate.code_bytes) / static_cast<double>(code.text.size());
}

TEST(CodeEstimate, IsWithin15PercentOfTheEmitterForOneVectorOfAvx512) {
  for (const CodeCase& c : code_cases()) {
    if (c.isa != HostIsa::avx512 || c.tile.nv != 1) continue;
    EXPECT_NEAR(estimate_over_emitted(c), 1.0, 0.15)
        << to_string(c.tile) << " k " << c.cols << " sparsity " << c.sparsity;
  }
}

// Columns with a single entry need no load of their own, which counts by tile do not show; so the
// estimate of sparse tiles with few rows is high, and never low.
TEST(CodeEstimate, IsNeverBelowTheEmitterAndAtMostTwoThirdsAbove) {
  for (const CodeCase& c : code_cases()) {
    const double ratio = estimate_over_emitted(c);

    EXPECT_GT(ratio, 0.99) << to_string(c.isa) << " " << to_string(c.tile) << " k " << c.cols
                           << " sparsity " << c.sparsity;
    EXPECT_LT(ratio, 1.67) << to_string(c.isa) << " " << to_string(c.tile) << " k " << c.cols
                           << " sparsity " << c.sparsity;
  }
}

}  // namespace

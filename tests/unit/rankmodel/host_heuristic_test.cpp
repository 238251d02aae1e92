#include "rankmodel/host_heuristic.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace {

using spjit::HostChoice;
using spjit::HostIsa;
using spjit::HostLimits;
using spjit::HostProblem;
using spjit::HostTile;

HostLimits limits_of(HostIsa isa, std::int64_t fmas_per_cycle = 2) {
  HostLimits limits;
  limits.isa = isa;
  limits.lanes = spjit::lanes_of(isa);
  limits.registers = spjit::registers_of(isa);
  limits.fmas_per_cycle = fmas_per_cycle;
  return limits;
}

HostProblem problem_of(std::int64_t rows, std::int64_t cols, std::int64_t n, double density) {
  HostProblem problem;
  problem.rows = rows;
  problem.cols = cols;
  problem.nnz = static_cast<std::int64_t>(static_cast<double>(rows * cols) * density);
  problem.n = n;
  problem.ldb = n;
  return problem;
}

void expect_legal(const HostProblem& problem, const HostLimits& limits) {
  const spjit::HostTile tile = spjit::choose_host_tile(problem, limits).tile;

  EXPECT_LE(spjit::registers_needed(tile), limits.registers) << to_string(tile);
  EXPECT_GE(tile.m1, 1);
  EXPECT_GE(tile.nv, 1);
  EXPECT_GE(tile.panel_group, 1);
  EXPECT_GE(tile.row_group, 0);
  if (!tile.pack_b) {
    EXPECT_TRUE(spjit::can_read_in_place(tile, limits.lanes, problem.n, problem.ldb, problem.cols));
  }
  if (problem.panel_columns) {
    EXPECT_EQ(tile.nv * limits.lanes, *problem.panel_columns);
    EXPECT_TRUE(tile.pack_b);
  }
}

TEST(HostHeuristic, FitsTheRegistersForEveryShape) {
  for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2, HostIsa::generic}) {
    for (const std::int64_t fmas : {1, 2}) {
      for (const std::int64_t rows :
           {0, 1, 2, 3, 5, 7, 10, 14, 15, 28, 29, 30, 31, 64, 512, 33288}) {
        for (const std::int64_t n : {1, 3, 8, 16, 17, 100, 128, 500, 512, 4096}) {
          for (const std::int64_t cols : {0, 1, 64, 768, 769, 4096}) {
            for (const double density : {0.0, 0.05, 0.5, 1.0}) {
              expect_legal(problem_of(rows, cols, n, density), limits_of(isa, fmas));
            }
          }
        }
      }
    }
  }
}

TEST(HostHeuristic, FitsTheRegistersForEveryForcedPanelWidth) {
  for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2, HostIsa::generic}) {
    const std::int64_t widest = spjit::widest_panel_vectors(isa);
    for (std::int64_t nv = 1; nv <= widest; ++nv) {
      for (const std::int64_t rows : {0, 1, 7, 100}) {
        HostProblem problem = problem_of(rows, 300, 200, 0.1);
        problem.panel_columns = nv * spjit::lanes_of(isa);

        expect_legal(problem, limits_of(isa));
      }
    }
  }
}

TEST(HostHeuristic, IsDeterministicAndSaysWhatItLookedAt) {
  const HostProblem problem = problem_of(512, 512, 128, 0.1);

  const HostChoice one = spjit::choose_host_tile(problem, limits_of(HostIsa::avx512));
  const HostChoice two = spjit::choose_host_tile(problem, limits_of(HostIsa::avx512));

  EXPECT_EQ(one.tile, two.tile);
  EXPECT_EQ(one.reason, two.reason);
  EXPECT_EQ(one.reason, "heuristic: 512 rows, k = 512, density 0.100, n = 128, 2 FMAs a cycle");
}

TEST(HostHeuristic, SpreadsRowsEvenlyOverTheTiles) {
  const auto tile =
      spjit::choose_host_tile(problem_of(64, 512, 128, 0.5), limits_of(HostIsa::avx512)).tile;

  EXPECT_EQ(tile.nv, 1);
  EXPECT_EQ(tile.m1, 22);  // 3 tiles of 22, not 30 + 30 + 4
}

TEST(HostHeuristic, PairsVectorsWhereTheKernelIsSmallOrWeightsNeedALoadOfTheirOwn) {
  const auto small =
      spjit::choose_host_tile(problem_of(64, 512, 128, 0.1), limits_of(HostIsa::avx512)).tile;
  const auto avx2 =
      spjit::choose_host_tile(problem_of(512, 512, 128, 0.5), limits_of(HostIsa::avx2)).tile;

  EXPECT_EQ(small.nv, 2);
  EXPECT_EQ(small.m1, 13);  // 5 tiles of 13, not 14 x 4 + 8
  EXPECT_EQ(avx2.nv, 2);
  EXPECT_EQ(avx2.m1, 6);
}

TEST(HostHeuristic, FewPanelsOfAvx2AreOneVectorWideWhereCodeIsLong) {
  const HostLimits limits = limits_of(HostIsa::avx2);

  const HostTile much = spjit::choose_host_tile(problem_of(512, 512, 32, 0.2), limits).tile;
  const HostTile little = spjit::choose_host_tile(problem_of(512, 512, 32, 0.05), limits).tile;

  EXPECT_EQ(much.nv, 1);
  EXPECT_EQ(much.m1, 14);
  EXPECT_EQ(little.nv, 2);
}

TEST(HostHeuristic, WidensPanelsWhereRowsAreTooFewToFillTheRegisters) {
  const auto tile =
      spjit::choose_host_tile(problem_of(6, 512, 512, 0.1), limits_of(HostIsa::avx512)).tile;

  EXPECT_EQ(tile.nv, 4);
  EXPECT_EQ(tile.m1, 6);
}

TEST(HostHeuristic, CutsWideMatricesIntoBlocksOfColumns) {
  const HostLimits limits = limits_of(HostIsa::avx512);

  EXPECT_EQ(spjit::choose_host_tile(problem_of(512, 768, 512, 0.1), limits).tile.k_block, 0);
  EXPECT_EQ(spjit::choose_host_tile(problem_of(512, 2048, 512, 0.1), limits).tile.k_block, 512);
}

TEST(HostHeuristic, PacksBOnlyWhereItPays) {
  const HostLimits limits = limits_of(HostIsa::avx512);

  EXPECT_FALSE(spjit::choose_host_tile(problem_of(512, 512, 128, 0.1), limits).tile.pack_b);
  EXPECT_TRUE(spjit::choose_host_tile(problem_of(512, 512, 512, 0.1), limits).tile.pack_b);
  EXPECT_FALSE(spjit::choose_host_tile(problem_of(128, 512, 512, 0.5), limits).tile.pack_b);
}

TEST(HostHeuristic, GroupsRowsOnlyWhereCodeOutgrowsL2) {
  const HostLimits limits = limits_of(HostIsa::avx512, 1);

  const auto small = spjit::choose_host_tile(problem_of(512, 512, 512, 0.1), limits).tile;
  const auto large = spjit::choose_host_tile(problem_of(2048, 2048, 512, 0.3), limits).tile;

  EXPECT_EQ(small.row_group, 0);
  EXPECT_GT(large.row_group, 0);
}

}  // namespace

#include "kernels/host/unrolled/host_heuristic.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "kernels/host/operands/packing.hpp"

namespace {

using spjit::HostChoice;
using spjit::HostDeviceInfo;
using spjit::HostIsa;
using spjit::HostTile;
using spjit::Workload;

HostDeviceInfo limits_of(HostIsa isa, std::int64_t fmas_per_cycle = 2) {
  HostDeviceInfo limits;
  limits.isa = isa;
  limits.lanes = spjit::lanes_of(isa);
  limits.registers = spjit::registers_of(isa);
  limits.fmas_per_cycle = fmas_per_cycle;
  return limits;
}

Workload problem_of(std::int64_t rows, std::int64_t cols, std::int64_t n, double density) {
  Workload problem;
  problem.rows = rows;
  problem.cols = cols;
  problem.nnz = static_cast<std::int64_t>(static_cast<double>(rows * cols) * density);
  problem.n = n;
  problem.ldb = n;
  return problem;
}

void expect_legal(const Workload& problem, const HostDeviceInfo& limits) {
  const spjit::HostTile tile = spjit::choose_host_tile(problem, limits).tile;

  EXPECT_LE(spjit::registers_needed(tile), limits.registers) << to_string(tile);
  EXPECT_GE(tile.m1, 1);
  EXPECT_GE(tile.nv, 1);
  EXPECT_GE(tile.panel_group, 1);
  EXPECT_GE(tile.row_group, 0);
  if (!tile.pack_b) {
    EXPECT_TRUE(spjit::can_read_in_place(tile, limits.lanes, problem.n, problem.ldb));
  }
  if (problem.panel_columns) {
    EXPECT_EQ(tile.nv * limits.lanes, *problem.panel_columns);
    EXPECT_TRUE(tile.pack_b);
  }
}

TEST(HostHeuristic, KnowsHowRowsOfBAreAligned) {
  EXPECT_EQ(spjit::row_alignment_bytes(1), 4);
  EXPECT_EQ(spjit::row_alignment_bytes(49), 4);
  EXPECT_EQ(spjit::row_alignment_bytes(784), 64);  // 49 lines
  EXPECT_EQ(spjit::row_alignment_bytes(512), 2048);
  EXPECT_EQ(spjit::row_alignment_bytes(12544), 1024);  // 49 KiB
  EXPECT_EQ(spjit::row_alignment_bytes(1 << 20), 65536);
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
        Workload problem = problem_of(rows, 300, 200, 0.1);
        problem.panel_columns = nv * spjit::lanes_of(isa);

        expect_legal(problem, limits_of(isa));
      }
    }
  }
}

TEST(HostHeuristic, IsDeterministicAndSaysWhatItLookedAt) {
  const Workload problem = problem_of(512, 512, 128, 0.1);

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
  const HostDeviceInfo limits = limits_of(HostIsa::avx2);

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
  const HostDeviceInfo limits = limits_of(HostIsa::avx512);

  EXPECT_EQ(spjit::choose_host_tile(problem_of(512, 768, 512, 0.1), limits).tile.k_block, 0);
  EXPECT_EQ(spjit::choose_host_tile(problem_of(512, 2048, 512, 0.1), limits).tile.k_block, 512);
}

TEST(HostHeuristic, BlocksOfAPackedBHoldFewerEntries) {
  const HostDeviceInfo limits = limits_of(HostIsa::avx512);
  const auto tile = [&](std::int64_t cols, std::int64_t n, double density) {
    return spjit::choose_host_tile(problem_of(512, cols, n, density), limits).tile;
  };

  EXPECT_EQ(tile(2048, 512, 0.05).k_block, 512);  // 26 entries of a row
  EXPECT_TRUE(tile(2048, 512, 0.05).pack_b);
  EXPECT_EQ(tile(2048, 512, 0.05).panel_group, 16);
  EXPECT_EQ(tile(2048, 512, 0.02).k_block, 1024);  // 20
  EXPECT_EQ(tile(1024, 512, 0.05).k_block, 0);     // k is too small for blocks of so few
  EXPECT_EQ(tile(2048, 128, 0.05).k_block, 1024);  // 51, in place
  EXPECT_FALSE(tile(2048, 128, 0.05).pack_b);
  Workload panels = problem_of(512, 2048, 512, 0.05);
  panels.panel_columns = 16;
  EXPECT_EQ(spjit::choose_host_tile(panels, limits).tile.k_block, 1024);  // nothing is packed
}

TEST(HostHeuristic, PacksRowsThatShareTooFewSets) {
  const HostDeviceInfo limits = limits_of(HostIsa::avx512);
  Workload problem = problem_of(256, 2304, 256, 0.02);  // 5 entries a column, rows 1 KB apart

  EXPECT_TRUE(spjit::choose_host_tile(problem, limits).tile.pack_b);
  problem.used_cols = 1000;  // few enough to stay in L2
  EXPECT_FALSE(spjit::choose_host_tile(problem, limits).tile.pack_b);
  EXPECT_FALSE(
      spjit::choose_host_tile(problem_of(256, 2304, 264, 0.02), limits).tile.pack_b);  // no sharing
  EXPECT_FALSE(spjit::choose_host_tile(problem_of(128, 2304, 256, 0.02), limits).tile.pack_b);  // 3
}

TEST(HostHeuristic, PadsASmallKernelALittleForPairsOfVectors) {
  const HostDeviceInfo limits = limits_of(HostIsa::avx512);
  const auto vectors = [&](std::int64_t n, double density) {
    return spjit::choose_host_tile(problem_of(128, 512, n, density), limits).tile.nv;
  };

  EXPECT_EQ(vectors(784, 0.05), 2);  // 49 vectors as 25 pairs
  EXPECT_EQ(vectors(784, 0.1), 1);   // too much code
  EXPECT_EQ(vectors(144, 0.05), 1);  // 9 vectors
}

TEST(HostHeuristic, JoinsShortTiles) {
  const HostDeviceInfo limits = limits_of(HostIsa::avx512);
  const auto join = [&](const Workload& problem) {
    return spjit::choose_host_tile(problem, limits).tile.join_bytes;
  };
  const auto panels = [&](double density) {
    Workload problem = problem_of(512, 512, 512, density);
    problem.panel_columns = 16;
    return problem;
  };
  Workload threads = problem_of(512, 512, 128, 0.02);
  threads.threads = 2;
  HostDeviceInfo small_l3 = limits;
  small_l3.l3_bytes = std::int64_t{1} << 20;

  EXPECT_EQ(join(problem_of(512, 512, 128, 0.02)), limits.l1i_bytes / 8 * 7);
  EXPECT_EQ(join(problem_of(512, 512, 128, 0.05)), 0);      // 730 entries a tile
  EXPECT_EQ(join(panels(0.05)), limits.l1i_bytes / 8 * 7);  // C has no rows far apart
  EXPECT_EQ(join(panels(0.1)), 0);
  EXPECT_EQ(join(problem_of(512, 512, 512, 0.02)), 0);   // rows of C 2 KB apart share few sets
  EXPECT_EQ(join(problem_of(512, 512, 1056, 0.02)), 0);  // on pages of their own
  EXPECT_EQ(join(threads), 0);
  EXPECT_EQ(spjit::choose_host_tile(problem_of(512, 512, 784, 0.02), small_l3).tile.join_bytes,
            0);  // C is streamed
}

TEST(HostHeuristic, PacksBOnlyWhereItPays) {
  const HostDeviceInfo limits = limits_of(HostIsa::avx512);

  EXPECT_FALSE(spjit::choose_host_tile(problem_of(512, 512, 128, 0.1), limits).tile.pack_b);
  EXPECT_TRUE(spjit::choose_host_tile(problem_of(512, 512, 512, 0.1), limits).tile.pack_b);
  EXPECT_FALSE(spjit::choose_host_tile(problem_of(128, 512, 512, 0.5), limits).tile.pack_b);
}

TEST(HostHeuristic, PacksSoonerTheFartherRowsOfBLieApart) {
  const HostDeviceInfo limits = limits_of(HostIsa::avx512);
  const auto packs = [&](std::int64_t rows, std::int64_t n, double density) {
    return spjit::choose_host_tile(problem_of(rows, 512, n, density), limits).tile.pack_b;
  };

  EXPECT_FALSE(packs(512, 512, 0.01));   // 5 entries a column
  EXPECT_TRUE(packs(512, 512, 0.02));    // 10, rows 2 KB apart
  EXPECT_FALSE(packs(512, 256, 0.02));   // 10, rows 1 KB apart
  EXPECT_TRUE(packs(512, 256, 0.04));    // 20
  EXPECT_FALSE(packs(128, 512, 0.1));    // 13
  EXPECT_TRUE(packs(128, 1024, 0.1));    // 13, rows 4 KB apart
  EXPECT_FALSE(packs(128, 1024, 0.04));  // 5
  EXPECT_FALSE(packs(512, 784, 0.1));    // 51, rows 49 lines apart
  EXPECT_TRUE(packs(512, 784, 0.2));     // 102
}

TEST(HostHeuristic, PacksRowsThatStraddleCacheLinesWhereTheyAreReadOften) {
  const HostDeviceInfo limits = limits_of(HostIsa::avx512);
  const auto packs = [&](std::int64_t n, double density) {
    return spjit::choose_host_tile(problem_of(512, 256, n, density), limits).tile.pack_b;
  };

  EXPECT_TRUE(packs(100, 0.2));  // 102 entries a column
  EXPECT_FALSE(packs(100, 0.1));
  EXPECT_FALSE(packs(112, 0.2));  // whole lines
  EXPECT_FALSE(packs(49, 0.2));
  EXPECT_TRUE(packs(300, 0.1));  // 51 entries a column, many columns
}

TEST(HostHeuristic, WalksPanelByPanelWhereRowsOfBArePagesApart) {
  const HostDeviceInfo limits = limits_of(HostIsa::avx512);

  const HostTile far = spjit::choose_host_tile(problem_of(128, 256, 12544, 0.1), limits).tile;
  const HostTile near = spjit::choose_host_tile(problem_of(128, 256, 784, 0.1), limits).tile;
  const HostTile few = spjit::choose_host_tile(problem_of(128, 64, 12544, 0.1), limits).tile;
  const HostTile sparse = spjit::choose_host_tile(problem_of(128, 256, 12544, 0.02), limits).tile;
  const HostTile colliding = spjit::choose_host_tile(problem_of(128, 256, 4096, 0.1), limits).tile;

  EXPECT_EQ(far.panel_group, 1);
  EXPECT_EQ(far.nv, 1);
  EXPECT_FALSE(far.pack_b);
  EXPECT_GT(near.panel_group, 1);
  EXPECT_GT(few.panel_group, 1);
  EXPECT_GT(sparse.panel_group, 1);  // 2 entries a column
  EXPECT_GT(colliding.panel_group, 1);
  EXPECT_TRUE(colliding.pack_b);
}

TEST(HostHeuristic, StreamsALargeCThatDoesNotStayInL3WithB) {
  HostDeviceInfo limits = limits_of(HostIsa::avx512);
  limits.l3_bytes = std::int64_t{32} << 20;
  const auto streams = [&](std::int64_t rows, std::int64_t cols, std::int64_t n) {
    return spjit::choose_host_tile(problem_of(rows, cols, n, 0.1), limits).tile.stream_c;
  };

  EXPECT_TRUE(streams(768, 768, 4096));    // 12 MB and 12 MB
  EXPECT_FALSE(streams(448, 64, 4096));    // 7 MB and 1 MB
  EXPECT_TRUE(streams(768, 64, 4096));     // 12 MB and 1 MB
  EXPECT_FALSE(streams(64, 1152, 12544));  // 3 MB and 55 MB
  EXPECT_TRUE(streams(3072, 64, 2048));    // 24 MB
}

TEST(HostHeuristic, ThreadsShareRowTilesWhereTheseAreMany) {
  const HostDeviceInfo limits = limits_of(HostIsa::avx512);
  const auto group = [&](std::int64_t rows, std::int64_t threads) {
    Workload problem = problem_of(rows, 512, 128, 0.2);
    problem.threads = threads;
    return spjit::choose_host_tile(problem, limits).tile.panel_group;
  };

  EXPECT_EQ(group(512, 1), 8);   // all panels
  EXPECT_EQ(group(512, 2), 8);   // 18 row tiles
  EXPECT_EQ(group(512, 4), 2);   // too few for four
  EXPECT_EQ(group(256, 2), 4);   // 9 row tiles
  EXPECT_EQ(group(2048, 4), 8);  // 69
}

TEST(HostHeuristic, GroupsRowsOnlyWhereCodeOutgrowsL2) {
  const HostDeviceInfo limits = limits_of(HostIsa::avx512, 1);

  const auto small = spjit::choose_host_tile(problem_of(512, 512, 512, 0.1), limits).tile;
  const auto large = spjit::choose_host_tile(problem_of(2048, 2048, 512, 0.3), limits).tile;
  const auto one_panel = spjit::choose_host_tile(problem_of(2048, 2048, 16, 0.3), limits).tile;

  EXPECT_EQ(small.row_group, 0);
  EXPECT_GT(large.row_group, 0);
  EXPECT_EQ(one_panel.row_group, 0);  // its code is gone through once
}

}  // namespace

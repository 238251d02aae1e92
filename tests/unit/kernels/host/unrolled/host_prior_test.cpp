#include "kernels/host/unrolled/host_prior.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/host/host_prior_testing.hpp"

namespace {

using spjit::estimate_host_us;
using spjit::HostDeviceInfo;
using spjit::TileCandidate;
using spjit::WeightForm;
using spjit::Workload;
using spjit::testing_support::candidate_of;
using spjit::testing_support::k_work;
using spjit::testing_support::limits;

double us_of(const TileCandidate& candidate, const Workload& work = k_work) {
  return estimate_host_us(candidate, work, limits());
}

TEST(HostPrior, IsTheSumOfCostsTimesCountsByHand) {
  // One panel of one vector; 10 nonzeros, 5 loads of B, 100 bytes of code in one tile, B in place.
  TileCandidate candidate;
  candidate.tile.pack_b = false;
  candidate.panels = 1;
  candidate.code_bytes = 100;
  candidate.grouping.tiles = 1;
  candidate.grouping.nnc_sum = 5;

  const double us = estimate_host_us(candidate, {4, 8, 10, 16}, limits());

  // FMAs, loads of weights and of B, bytes of code, one call.
  EXPECT_NEAR(us, (10 * 0.089 + (10 + 5) * 0.058 + 100 * 0.00044 + 14) / 1e3, 1e-9);
}

TEST(HostPrior, GrowsWithLoadsFmasAndCode) {
  TileCandidate more_code = candidate_of();
  more_code.code_bytes = 2 * more_code.code_bytes;
  Workload more_fmas = k_work;
  more_fmas.nnz = 2 * more_fmas.nnz;

  EXPECT_GT(us_of(candidate_of(4801)), us_of(candidate_of(4800)));
  EXPECT_GT(us_of(more_code), us_of(candidate_of()));
  EXPECT_GT(us_of(candidate_of(), more_fmas), us_of(candidate_of()));
}

TEST(HostPrior, GrowsWithPanels) {
  double last = 0;
  for (const std::int64_t panels : {1, 2, 3, 8, 64}) {
    TileCandidate candidate = candidate_of();
    candidate.panels = panels;
    Workload work = k_work;
    work.n = 16 * panels;

    const double us = us_of(candidate, work);

    EXPECT_GT(us, last) << panels;
    last = us;
  }
}

TEST(HostPrior, CodeBeyondL2CostsMoreABytePerVisit) {
  TileCandidate small = candidate_of();
  small.grouping.tiles = 1000;  // each tile's code fits L1I
  small.code_bytes = 300'000;
  TileCandidate large = small;
  large.code_bytes = 6'000'000;
  TileCandidate none = small;
  none.code_bytes = 0;

  const double small_cost = (us_of(small) - us_of(none)) / 300'000;
  const double large_cost = (us_of(large) - us_of(none)) / 6'000'000;
  EXPECT_GT(large_cost, 10 * small_cost);

  // A group of all panels visits the code once, and so does a row group whose code stays in L2.
  TileCandidate grouped = large;
  grouped.tile.panel_group = 8;
  TileCandidate rows = large;
  rows.tile.row_group = 100;
  EXPECT_LT(us_of(grouped), us_of(large));
  EXPECT_LT(us_of(rows), us_of(large));
}

TEST(HostPrior, PackingCostsWhatInPlaceDoesNotHave) {
  TileCandidate in_place = candidate_of();
  in_place.tile.pack_b = false;
  // 512 rows of B, 128 columns of 4 bytes at 0.03 ns: within the TLB's reach.
  EXPECT_NEAR(us_of(candidate_of()) - us_of(in_place), 512 * 128 * 4 * 0.03 / 1e3, 1e-9);

  // 4096 columns of B are out of it.
  Workload wide = k_work;
  wide.n = 4096;
  in_place.panels = 256;
  TileCandidate packed = in_place;
  packed.tile.pack_b = true;
  EXPECT_LT(us_of(packed, wide), us_of(in_place, wide));
}

TEST(HostPrior, BlocksOfColumnsCostAccumulatorsAndCallsAndSaveMissesOfB) {
  TileCandidate blocked = candidate_of();
  blocked.tile.k_block = 256;
  HostDeviceInfo much_l1d = limits();
  much_l1d.l1d_bytes = 1 << 20;
  const double whole_us = estimate_host_us(candidate_of(), k_work, much_l1d);

  const double blocked_us = estimate_host_us(blocked, k_work, much_l1d);

  // 8 panels x (280 rows of 64 bytes, stored and loaded once, and 10 tiles called once more).
  EXPECT_NEAR(blocked_us - whole_us, 8 * (280 * 64 * 2 * 0.01 + 10 * 14) / 1e3, 1e-9);
  // 512 rows of 64 bytes of B are most of 32 KiB, 256 are not.
  EXPECT_LT(us_of(blocked) - us_of(candidate_of()), blocked_us - whole_us);
}

TEST(HostPrior, ABlockOfAllColumnsOrMoreIsNone) {
  for (const std::int64_t k_block : {512, 10'000}) {
    TileCandidate candidate = candidate_of();
    candidate.tile.k_block = k_block;

    EXPECT_DOUBLE_EQ(us_of(candidate), us_of(candidate_of())) << k_block;
  }
}

TEST(HostPrior, IsFiniteAndPositiveForEdgeCases) {
  HostDeviceInfo no_caches = limits();
  no_caches.l1i_bytes = no_caches.l1d_bytes = no_caches.l2_bytes = 0;
  const std::vector<Workload> works = {{0, 0, 0, 1},
                                       {1, 1, 1, 1},
                                       {1, 0, 0, 100'000},
                                       {1'000'000, 1'000'000, 1'000'000'000, 100'000},
                                       k_work};
  for (const Workload& work : works) {
    for (const WeightForm form :
         {WeightForm::broadcast, WeightForm::register_, WeightForm::balanced}) {
      for (const std::int64_t tiles : {0, 1, 40'000}) {
        TileCandidate candidate = candidate_of(tiles * 100);
        candidate.tile.form = form;
        candidate.tile.nv = 8;
        candidate.tile.k_block = 256;
        candidate.tile.panel_group = 1'000'000;
        candidate.grouping.tiles = tiles;
        candidate.panels = (work.n + 127) / 128;
        for (const HostDeviceInfo& machine : {limits(), no_caches}) {
          const double us = estimate_host_us(candidate, work, machine);

          EXPECT_TRUE(std::isfinite(us)) << tiles << " tiles, nnz " << work.nnz;
          EXPECT_GT(us, 0) << tiles << " tiles, nnz " << work.nnz;
        }
      }
    }
  }
}

}  // namespace

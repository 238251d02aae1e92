#include "kernels/host/unrolled/host_features.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "kernels/host/unrolled/host_heuristic.hpp"
#include "kernels/host/unrolled/tile_space.hpp"
#include "reorder/row_grouping.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::host_feature_row;
using spjit::host_feature_schema;
using spjit::HostDeviceInfo;
using spjit::TileCandidate;
using spjit::Workload;

/// 8 rows in 2 tiles of 4, 64 columns of B in 4 panels of 16.
TileCandidate candidate_by_hand() {
  TileCandidate candidate;
  candidate.tile.m1 = 4;
  candidate.tile.nv = 1;
  candidate.tile.panel_group = 2;
  candidate.panels = 4;
  candidate.code_bytes = 4096;
  candidate.grouping.tiles = 2;
  candidate.grouping.nnc_sum = 32;
  return candidate;
}

Workload work_by_hand() { return {8, 32, 64, 64, 1, 0.5}; }

HostDeviceInfo limits_by_hand() {
  HostDeviceInfo limits;
  limits.isa = spjit::HostIsa::avx512;
  limits.lanes = 16;
  limits.registers = 32;
  return limits;
}

double feature(const std::vector<float>& row, const std::string& name) {
  const std::vector<std::string> names = host_feature_schema().names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return row.at(i);
  }
  ADD_FAILURE() << "no feature " << name;
  return NAN;
}

TEST(HostFeatures, AreNamedOnceEachWithUnitAndMeaning) {
  std::set<std::string> names;
  for (const spjit::Feature& feature : host_feature_schema().features) {
    EXPECT_TRUE(names.insert(feature.name).second) << feature.name;
    EXPECT_NE(std::string(feature.unit), "") << feature.name;
    EXPECT_NE(std::string(feature.meaning), "") << feature.name;
  }
}

TEST(HostFeatures, AreWhatTheirNamesSay) {
  const std::vector<float> row =
      host_feature_row(candidate_by_hand(), work_by_hand(), limits_by_hand());

  ASSERT_EQ(row.size(), host_feature_schema().features.size());
  EXPECT_EQ(feature(row, "rows"), 3);      // log2 8
  EXPECT_EQ(feature(row, "cols"), 5);      // log2 32
  EXPECT_EQ(feature(row, "n"), 6);         // log2 64
  EXPECT_EQ(feature(row, "density"), -2);  // 64 of 256
  EXPECT_EQ(feature(row, "row_nnz_cv"), 0.5);
  EXPECT_EQ(feature(row, "accumulators"), 4.0 / 32);
  EXPECT_EQ(feature(row, "row_tiles"), 1);
  EXPECT_EQ(feature(row, "panels"), 2);
  EXPECT_EQ(feature(row, "blocks"), 3);
  EXPECT_EQ(feature(row, "nnc_sum"), 5);
  EXPECT_EQ(feature(row, "nnc_share"), 0.5);  // 16 of 32 columns a tile
  EXPECT_EQ(feature(row, "fmas_per_load"), 2);
  EXPECT_EQ(feature(row, "loads_per_fma"), 1.5);  // a weight each, half a row of B
  EXPECT_EQ(feature(row, "k_block"), 5);          // all of k
  EXPECT_EQ(feature(row, "k_blocks"), 1);
  EXPECT_EQ(feature(row, "pack_b"), 1);
  EXPECT_EQ(feature(row, "panel_group"), 1);
  EXPECT_EQ(feature(row, "visits"), 1);          // 2 groups of 2 panels
  EXPECT_EQ(feature(row, "code_over_l1i"), -4);  // 2 KiB of 32 KiB
  EXPECT_EQ(feature(row, "b_over_l1d"), -3);     // 32 x 32 floats, 4 KiB of 32 KiB
  EXPECT_EQ(feature(row, "code_per_fma"), 5);    // 2 visits x 4096 bytes, 64 x 4 FMAs
  const spjit::HostCost cost =
      spjit::estimate_host_cost(candidate_by_hand(), work_by_hand(), limits_by_hand());
  EXPECT_NEAR(feature(row, "prior"), cost.total_us() * 1e3 / (64 * 64 / 1e3), 1e-4);
}

TEST(HostFeatures, CompareWithTheTileOfTheRules) {
  TileCandidate rules = candidate_by_hand();
  rules.tile = spjit::host_tile_by_rules(spjit::contiguous(work_by_hand()), limits_by_hand());
  TileCandidate other = rules;
  other.tile.m1 *= 2;
  other.tile.pack_b = !rules.tile.pack_b;

  const std::vector<float> same = host_feature_row(rules, work_by_hand(), limits_by_hand());
  const std::vector<float> changed = host_feature_row(other, work_by_hand(), limits_by_hand());

  EXPECT_EQ(feature(same, "rules"), 1);
  EXPECT_EQ(feature(same, "pack_b_by_rules"), 1);
  EXPECT_EQ(feature(same, "m1_by_rules"), 0);
  EXPECT_EQ(feature(same, "nv_by_rules"), 0);
  EXPECT_EQ(feature(changed, "rules"), 0);
  EXPECT_EQ(feature(changed, "pack_b_by_rules"), 0);
  EXPECT_EQ(feature(changed, "m1_by_rules"), 1);
}

TEST(HostFeatures, AreFiniteForEveryTileOfOddMatrices) {
  const HostDeviceInfo limits = spjit::host_device_info(spjit::HostIsa::avx2);
  for (const auto& [rows, cols] : {std::pair{1, 1}, {1, 300}, {300, 1}, {70, 90}}) {
    for (const double sparsity : {0.0, 0.9, 1.0}) {
      const auto matrix = spjit::testing_support::random_matrix(rows, cols, sparsity);
      const spjit::Problem problem = spjit::testing_support::problem_of(matrix, 33);
      spjit::CompileOptions options;
      options.target = spjit::Target(spjit::HostIsa::avx2);
      const spjit::TileSpace space = spjit::enumerate_host_tiles(
          problem, options, limits,
          [&](std::int64_t m1) { return spjit::EstimatedGrouping(matrix).statistics(m1); });
      for (const TileCandidate& candidate : space.candidates) {
        for (const float value :
             host_feature_row(candidate, spjit::workload_of(problem, 1), limits)) {
          EXPECT_TRUE(std::isfinite(value)) << to_string(candidate.tile);
        }
      }
    }
  }
}

}  // namespace

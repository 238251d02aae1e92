#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>

#include "kernels/cuda/unrolled/cuda_tile_space.hpp"
#include "kernels/host/unrolled/tile_space.hpp"
#include "reorder/row_groupings.hpp"
#include "runtime/cuda/cuda_device_info.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::CompileOptions;
using spjit::CudaTile;
using spjit::HostDeviceInfo;
using spjit::HostIsa;
using spjit::HostTile;
using spjit::Problem;
using spjit::RowGroupings;
using spjit::testing_support::random_matrix;

Problem tile_problem(std::int64_t rows, std::int64_t cols, double sparsity, std::int64_t n) {
  Problem made;
  made.a = random_matrix(rows, cols, sparsity);
  made.n = n;
  return made;
}

HostDeviceInfo device_with(HostIsa isa) {
  HostDeviceInfo info;
  info.isa = isa;
  info.lanes = spjit::lanes_of(isa);
  info.registers = spjit::registers_of(isa);
  return info;
}

const Problem& first_problem() {
  static const Problem made = tile_problem(300, 800, 0.9, 512);
  return made;
}

const Problem& second_problem() {
  static const Problem made = tile_problem(64, 3000, 0.95, 96);
  return made;
}

TEST(TileNames, OfAllTilesOfTheHostDiffer) {
  for (const Problem* of : {&first_problem(), &second_problem()}) {
    for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2}) {
      CompileOptions options;
      options.target = spjit::Target(isa);
      options.resources.threads = 4;
      RowGroupings groupings(*of->a, options.policy.reorder);
      std::set<std::string> names;

      const auto candidates =
          spjit::enumerate_host_tiles(*of, options, device_with(isa), [&](std::int64_t m1) {
            return groupings.statistics(m1);
          }).candidates;
      for (const auto& candidate : candidates) names.insert(to_string(candidate.tile));

      EXPECT_GT(candidates.size(), 50U);
      EXPECT_EQ(names.size(), candidates.size());
    }
  }
}

TEST(TileNames, OfAllTilesOfAGpuDiffer) {
  for (const Problem* of : {&first_problem(), &second_problem()}) {
    RowGroupings groupings(*of->a, spjit::ReorderAlgorithm::balanced);
    std::set<std::string> names;

    const auto candidates =
        spjit::enumerate_cuda_tiles(*of, {}, spjit::parse_cuda_target("sm_90:h100"), groupings)
            .candidates;
    for (const auto& candidate : candidates) names.insert(to_string(candidate.tile));

    EXPECT_GT(candidates.size(), 50U);
    EXPECT_EQ(names.size(), candidates.size());
  }
}

TEST(TileNames, DifferInEveryMemberOfAHostTile) {
  std::set<std::string> names = {to_string(HostTile{})};
  const auto add = [&](auto HostTile::*member, auto value) {
    HostTile tile;
    tile.*member = value;
    EXPECT_NE(tile, HostTile{});
    EXPECT_TRUE(names.insert(to_string(tile)).second) << to_string(tile);
  };

  add(&HostTile::m1, std::int64_t{14});
  add(&HostTile::nv, std::int64_t{14});
  add(&HostTile::k_block, std::int64_t{14});
  add(&HostTile::panel_group, std::int64_t{14});
  add(&HostTile::row_group, std::int64_t{14});
  add(&HostTile::memory_rows, std::int64_t{14});
  add(&HostTile::pack_b, false);
  add(&HostTile::stream_c, true);
  add(&HostTile::read_ahead, true);
  add(&HostTile::join_bytes, std::int64_t{14});
  add(&HostTile::form, spjit::WeightForm::register_);
  add(&HostTile::form, spjit::WeightForm::balanced);
}

TEST(TileNames, NameEverythingOfACudaTile) {
  EXPECT_EQ(to_string(CudaTile{.m1 = 32, .n1 = 128}), "rows=32 columns=128");
  EXPECT_EQ(to_string(CudaTile{.m1 = 4, .n1 = 64, .unit_nonzeros = 12, .runtime_sizes = true}),
            "rows=4 columns=64 unit=12 run-time n");
  EXPECT_EQ(to_string(CudaTile{.m1 = 4,
                               .n1 = 64,
                               .reorder = spjit::ReorderAlgorithm::balanced,
                               .cap = spjit::CudaCap::grid}),
            "rows=4 columns=64 reorder=balanced cap=grid");
  EXPECT_EQ(to_string(CudaTile{.m1 = 4, .n1 = 64, .tiles_a_block = 2}),
            "rows=4 columns=64 tiles=2");
}

}  // namespace

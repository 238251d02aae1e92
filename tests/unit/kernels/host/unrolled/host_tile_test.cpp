#include "kernels/host/unrolled/host_tile.hpp"

#include <gtest/gtest.h>

namespace {

using spjit::HostIsa;
using spjit::HostTile;

TEST(HostTile, NamesEverythingThatWasChosen) {
  HostTile tile;
  tile.m1 = 14;
  tile.nv = 2;
  tile.k_block = 512;
  tile.panel_group = 8;
  tile.row_group = 3;
  tile.form = spjit::WeightForm::balanced;

  EXPECT_EQ(to_string(tile),
            "rows=14 vectors=2 k_block=512 panels=8 row_group=3 packed weights=balanced");
}

TEST(HostTile, NamesReadingInPlaceAndTheOtherForms) {
  HostTile tile;
  tile.pack_b = false;
  tile.memory_rows = 0;
  EXPECT_EQ(to_string(tile), "rows=28 vectors=1 panels=1 in-place memory_rows=0");

  tile.form = spjit::WeightForm::register_;
  EXPECT_EQ(to_string(tile), "rows=28 vectors=1 panels=1 in-place weights=register memory_rows=0");
}

TEST(HostTile, CountsAccumulatorsOneRowOfBAndAWeight) {
  HostTile tile;
  tile.m1 = 7;
  tile.nv = 3;

  EXPECT_EQ(spjit::registers_needed(tile), 7 * 3 + 3 + 1);
}

TEST(HostTile, KnowsTheRegistersOfTheInstructionSets) {
  EXPECT_EQ(spjit::lanes_of(HostIsa::avx512) * 4, 64);
  EXPECT_EQ(spjit::lanes_of(HostIsa::avx2) * 4, 32);
  EXPECT_EQ(spjit::lanes_of(HostIsa::generic) * 4, 16);
  EXPECT_EQ(spjit::registers_of(HostIsa::avx512), 32);
  EXPECT_EQ(spjit::registers_of(HostIsa::avx2), 16);
  EXPECT_EQ(spjit::registers_of(HostIsa::generic), 16);
}

TEST(HostTile, ReadsInPlaceOnlyWhereNFillsAPanel) {
  HostTile tile;
  tile.nv = 2;

  EXPECT_TRUE(spjit::can_read_in_place(tile, 16, 32, 32));
  EXPECT_FALSE(spjit::can_read_in_place(tile, 16, 31, 32));
}

TEST(HostTile, ReadsInPlaceOnlyWhereTheDistanceIsBuiltIn) {
  const HostTile tile;
  constexpr std::int64_t k_floats = std::int64_t{1} << 18;

  EXPECT_TRUE(spjit::can_read_in_place(tile, 16, 16, k_floats));
  EXPECT_FALSE(spjit::can_read_in_place(tile, 16, 16, k_floats + 1));
}

}  // namespace

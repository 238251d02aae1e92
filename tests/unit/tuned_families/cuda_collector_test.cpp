// Timing compiled tiles on the emulated driver, with PTX in place of cubins. Its times mean
// nothing.

#include "kernels/cuda/unrolled/training/cuda_collector.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "artifact/tuned_families.hpp"
#include "kernels/cuda/unrolled/cuda_tile_space.hpp"
#include "kernels/tuning/training/sample_recipes.hpp"
#include "spjit/error.hpp"
#include "tests/support/cuda/cuda_space_testing.hpp"
#include "tests/support/cuda/emulated_kernel.hpp"
#include "tests/support/scoped_variable.hpp"

namespace {

using namespace spjit;
using namespace spjit;
using namespace spjit::testing_support;
namespace fs = std::filesystem;

constexpr std::int64_t k_columns_of_b = 40;

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

/// Two tiles of a matrix whose cubins, which are PTX, are in a folder; a third did not compile.
class CudaCollectorTest : public ::testing::Test {
 protected:
  CudaCollectorTest() {
    group_.name = "a matrix";
    group_.recipe = {{"rows", 24}};
    group_.limits = parse_cuda_target("sm_90");
    group_.times = TimeKind::none;
    const Problem problem = cuda_problem(random_matrix(24, 16, 0.7), k_columns_of_b);
    for (const std::int64_t m1 : {2, 4, 8}) {
      CudaTile tile;
      tile.m1 = m1;
      tile.n1 = 32;
      tile.reorder = ReorderAlgorithm::balanced;
      const RowGrouping grouping = group_rows(*problem.a, m1, tile.reorder);
      CudaSample sample{examine_cuda_tile(problem, tile, cuda_policy(), group_.limits, grouping)};
      group_.work = sample.candidate.work;
      if (m1 < 8) sample.key = publish(problem, tile);
      group_.samples.push_back(sample);
    }
  }

  std::string publish(const Problem& problem, const CudaTile& tile) {
    CudaKernelSpec spec = cuda_spec(tile.m1, k_columns_of_b);
    spec.tile = tile;
    const CudaCase made = make_cuda_case(*problem.a, spec, tile.reorder);
    const std::string ptx = ptx_of(made);
    const std::int64_t blocks = cuda_grid(made.plan, made.spec).x;
    const std::string key(64, static_cast<char>('0' + tile.m1));
    const std::vector<CacheFile> files = {{"kernel.cubin", std::as_bytes(std::span(ptx))}};
    folder_.cubins().publish(key, files, {{"tile", to_string(tile)}, {"blocks_x", blocks}});
    return key;
  }

  [[nodiscard]] fs::path cubin(const CudaSample& sample) const {
    return directory_.path() / "tiles/cubins" / sample.key.substr(0, 2) / sample.key /
           "kernel.cubin";
  }

  TemporaryDirectory directory_;
  ScopedVariable driver_{"SPJIT_CUDA_DRIVER", SPJIT_EMULATED_CUDA};
  CompiledTiles folder_{directory_.path() / "tiles"};
  CudaSampleGroup group_;
};

TEST_F(CudaCollectorTest, TilesThatCompiledGetTimes) {
  const int gpu = timing_gpu_of(group_.limits);

  const CudaSampleGroup timed = time_tiles(group_, folder_, gpu, 60'000);

  EXPECT_EQ(timed.times, TimeKind::measured);
  EXPECT_EQ(timed.name, "a matrix");
  ASSERT_EQ(timed.samples.size(), 2U);
  for (const CudaSample& sample : timed.samples) {
    EXPECT_GT(sample.us, 0);
    EXPECT_GT(sample.samples, 0);
  }
  EXPECT_EQ(read_cuda_samples(write_samples(timed)).samples[1].key, group_.samples[1].key);
}

TEST_F(CudaCollectorTest, ADamagedOrMissingCubinIsNoSlowTile) {
  EXPECT_FALSE(folder_.refusal(group_.samples[0]));
  fs::permissions(cubin(group_.samples[0]), fs::perms::owner_write, fs::perm_options::add);
  std::ofstream(cubin(group_.samples[0]), std::ios::app) << "more";
  const std::string damaged =
      error_of([&] { static_cast<void>(time_tiles(group_, folder_, 0, 60'000)); });
  const std::string missing =
      error_of([&] { static_cast<void>(time_tiles(group_, folder_, 0, 60'000)); });

  EXPECT_NE(damaged.find("tile rows=2"), std::string::npos) << damaged;
  EXPECT_NE(damaged.find("compiles it again"), std::string::npos) << damaged;
  EXPECT_NE(missing.find("its cubin is not there"), std::string::npos) << missing;
  EXPECT_EQ(folder_.refusal(group_.samples[0]).reason(), "its cubin is not there");
  EXPECT_FALSE(folder_.refusal(group_.samples[1]));
  EXPECT_FALSE(folder_.refusal(group_.samples[2]));  // did not compile
}

TEST_F(CudaCollectorTest, ATileThatDoesNotLoadHasNoTime) {
  const std::string nonsense = "no code";
  group_.samples[0].key = std::string(64, 'f');
  const std::vector<CacheFile> files = {{"kernel.cubin", std::as_bytes(std::span(nonsense))}};
  folder_.cubins().publish(group_.samples[0].key, files, {{"tile", "none"}, {"blocks_x", 1}});

  const CudaSampleGroup timed = time_tiles(group_, folder_, 0, 60'000);

  ASSERT_EQ(timed.samples.size(), 2U);
  EXPECT_EQ(timed.samples[0].us, 0);
  EXPECT_GT(timed.samples[1].us, 0);
  group_.samples.resize(1);
  EXPECT_NE(error_of([&] {
              static_cast<void>(time_tiles(group_, folder_, 0, 60'000));
            }).find("no tile could be timed: "),
            std::string::npos);
}

/// PTX is no cubin, and the clock reads cubins: nothing is made up.
TEST_F(CudaCollectorTest, WhatTheClockCannotReadHasNoModelledTime) {
  EXPECT_THROW(static_cast<void>(model_tiles(group_, folder_)), Error);
  group_.limits.arch = 61;
  EXPECT_THROW(static_cast<void>(model_tiles(group_, folder_)), NotSupported);
}

/// As `spjit collect` sees the folder.
TEST_F(CudaCollectorTest, AFolderTimesALine) {
  const auto folder = tuned_family("cuda").open(directory_.path() / "others");
  const SampleLine line = to_line(group_);
  EXPECT_FALSE(folder->is_complete(line));
  EXPECT_NE(
      error_of([&] { static_cast<void>(folder->time(line, 60'000)); }).find("compiles it again"),
      std::string::npos);
  fs::remove(directory_.path() / "others/cubins");
  fs::create_directory_symlink(directory_.path() / "tiles/cubins",
                               directory_.path() / "others/cubins");

  const SampleLine timed = folder->time(line, 60'000);

  EXPECT_TRUE(folder->is_complete(line));
  EXPECT_EQ(timed.times, TimeKind::measured);
  EXPECT_EQ(timed.tiles.size(), 2U);
  EXPECT_EQ(timed.keys[0], line.keys[0]);
  EXPECT_THROW(static_cast<void>(folder->model(line)), Error);
}

TEST_F(CudaCollectorTest, TilesOfAnotherCardAreNotTimed) {
  CudaDeviceInfo other = group_.limits;
  other.sms += 1;

  EXPECT_NE(error_of([&] { static_cast<void>(timing_gpu_of(other)); }).find("cannot be timed here"),
            std::string::npos);
}

TEST_F(CudaCollectorTest, AFolderOfTilesIsInUseByOne) {
  EXPECT_THROW(CompiledTiles(directory_.path() / "tiles"), IoError);
}

TEST(CudaSampleRecipes, StayWithinTheirRanges) {
  int pixels = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const SampleRecipe recipe = draw_cuda_recipe(1, i);
    const GenerateOptions& generate = recipe.generate;
    for (const std::int64_t size : {generate.rows, generate.cols}) {
      EXPECT_GE(size, 64);
      EXPECT_LE(size, 2048);
    }
    const double of_row = (1 - generate.sparsity) * static_cast<double>(generate.cols);
    EXPECT_LE(of_row, 1024);
    EXPECT_LE(of_row * static_cast<double>(generate.rows), 1e5 + 4194.304);
    EXPECT_GE(generate.sparsity, 0.4);
    EXPECT_GE(recipe.n, 128);
    EXPECT_LE(recipe.n, 50176);
    if (recipe.n % 196 == 0) ++pixels;
    EXPECT_EQ(name_of(recipe), name_of(draw_cuda_recipe(1, i)));
  }
  EXPECT_GT(pixels, 200);
}

}  // namespace

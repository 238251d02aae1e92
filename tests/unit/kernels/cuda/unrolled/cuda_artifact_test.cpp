#include "kernels/cuda/unrolled/cuda_artifact.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "spjit/error.hpp"
#include "tests/support/cuda/emitter_cases.hpp"
#include "tests/support/padded_3x3.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

UnrolledProgram some_program() {
  CudaKernelSpec spec = cuda_spec(2, 40);
  spec.ldb = 41;
  spec.ldc = 43;
  spec.tile.runtime_sizes = true;
  spec.layer.b_layout = Layout::tokens_major;
  spec.layer.runtime_values = true;
  spec.layer.epilogue = {.bias = true, .activation = Activation::clamp, .low = -1.5F, .high = 6};
  return make_program(cuda_plan(small_matrix(), 2), spec, 90);
}

/// Of 2 channels of 3 x 4 pixels.
UnrolledProgram program_of_patches() {
  UnrolledProgram program = some_program();
  program.cols = 18;
  program.n = 12;
  program.ldb = 13;
  program.runtime_sizes = false;
  program.layer.b_layout = Layout::row_major;
  program.layer.convolution = padded_3x3(2, 3, 4);
  return program;
}

TEST(UnrolledProgram, DescribesTheLaunchOfItsPlan) {
  const UnrolledProgram program = some_program();

  // 4 non-empty rows in tiles of 2, and one function for the empty one.
  EXPECT_EQ(program.blocks_x, 3);
  EXPECT_EQ(program.threads, 32);
  EXPECT_EQ(program.blocks_y(program.n), 2);
  EXPECT_EQ(program.blocks_y(64), 2);
  EXPECT_EQ(program.blocks_y(65), 3);
  EXPECT_EQ(program.nnz, 7);
}

TEST(UnrolledProgram, IsReadBackFromItsRecord) {
  EXPECT_EQ(read_unrolled_program(to_json(some_program())), some_program());
  EXPECT_EQ(read_unrolled_program(to_json(program_of_patches())), program_of_patches());
}

TEST(UnrolledProgram, TokensOfBMayOverlap) {
  UnrolledProgram program = some_program();
  program.ldb = 1;

  EXPECT_EQ(read_unrolled_program(to_json(program)), program);
}

TEST(UnrolledProgram, KeepsInfiniteBounds) {
  UnrolledProgram program = some_program();
  program.layer.epilogue.low = -std::numeric_limits<float>::infinity();
  program.layer.epilogue.high = std::numeric_limits<float>::infinity();

  EXPECT_EQ(read_unrolled_program(to_json(program)), program);
}

TEST(UnrolledProgram, RefusesRecordsThatAreNotOne) {
  const nlohmann::json good = to_json(some_program());
  for (const auto& [name, value] : good.items()) {
    nlohmann::json missing = good;
    missing.erase(name);
    EXPECT_THROW(static_cast<void>(read_unrolled_program(missing)), Error) << name;
    nlohmann::json text = good;
    text[name] = "12";
    EXPECT_THROW(static_cast<void>(read_unrolled_program(text)), Error) << name;
    if (name.starts_with("runtime_") || name == "epilogue" || name.ends_with("_layout")) continue;
    if (name == "convolution") continue;
    nlohmann::json negative = good;
    negative[name] = -1;
    EXPECT_THROW(static_cast<void>(read_unrolled_program(negative)), Error) << name;
  }
  EXPECT_THROW(static_cast<void>(read_unrolled_program(nlohmann::json::array())), Error);
}

TEST(UnrolledProgram, OfSeveralTilesABlockHasTheirThreads) {
  UnrolledProgram program = some_program();
  program.threads = 128;
  program.tiles_a_block = 4;

  EXPECT_EQ(read_unrolled_program(to_json(program)), program);
  EXPECT_EQ(program.n1(), 32);
  EXPECT_EQ(program.blocks_y(65), 3);
  EXPECT_EQ(program.shared_bytes(), 4 * stage_of(program.layer, 32).bytes);
  program.layer.b_layout = Layout::row_major;
  for (const auto& [threads, tiles] : {std::pair{100, 2}, {128, 3}, {32, 5}, {32, 0}}) {
    program.threads = threads;
    program.tiles_a_block = tiles;
    EXPECT_THROW(static_cast<void>(read_unrolled_program(to_json(program))), Error) << threads;
  }
  program.layer.b_layout = Layout::tokens_major;
  program.threads = 512;  // 4 x 17 KB
  program.tiles_a_block = 4;
  EXPECT_THROW(static_cast<void>(read_unrolled_program(to_json(program))), Error);
}

TEST(UnrolledProgram, RefusesRelationsThatNoLaunchHas) {
  nlohmann::json narrow = to_json(some_program());
  narrow["ldc"] = 39;
  nlohmann::json many_blocks = to_json(some_program());
  many_blocks["blocks_x"] = 6;  // of 5 rows
  nlohmann::json short_tokens = to_json(some_program());
  short_tokens["c_layout"] = "tokens";
  short_tokens["ldc"] = 4;  // of 5 rows
  nlohmann::json panels = to_json(some_program());
  panels["b_layout"] = "panels";
  nlohmann::json part_of_a_warp = to_json(some_program());
  part_of_a_warp["threads"] = 40;
  nlohmann::json no_range = to_json(some_program());
  no_range["epilogue"]["low"] = 7;
  nlohmann::json unknown = to_json(some_program());
  unknown["epilogue"]["activation"] = "softmax";
  nlohmann::json wide = to_json(some_program());
  wide["n"] = wide["ldb"] = wide["ldc"] = 32 * 65536;

  EXPECT_THROW(static_cast<void>(read_unrolled_program(narrow)), Error);
  EXPECT_THROW(static_cast<void>(read_unrolled_program(many_blocks)), Error);
  EXPECT_THROW(static_cast<void>(read_unrolled_program(wide)), Error);
  for (const auto& wrong : {short_tokens, panels, part_of_a_warp}) {
    EXPECT_THROW(static_cast<void>(read_unrolled_program(wrong)), Error) << wrong;
  }
  EXPECT_THROW(static_cast<void>(read_unrolled_program(no_range)), Error);
  const nlohmann::json patches = to_json(program_of_patches());
  for (const auto& [name, value] :
       {std::pair{"cols", 17}, {"n", 11}, {"ldb", 11}, {"runtime_sizes", 1}}) {
    nlohmann::json wrong = patches;
    if (value == 1)
      wrong[name] = true;
    else
      wrong[name] = value;
    EXPECT_THROW(static_cast<void>(read_unrolled_program(wrong)), Error) << name;
  }
  nlohmann::json wide_image = patches;
  wide_image["convolution"]["width"] = 5;
  EXPECT_THROW(static_cast<void>(read_unrolled_program(wide_image)), Error);
  EXPECT_THROW(static_cast<void>(read_unrolled_program(unknown)), Error);
}

}  // namespace

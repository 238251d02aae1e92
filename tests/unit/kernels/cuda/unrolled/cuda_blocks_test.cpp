// Kernels whose blocks share functions and whose launch says how many threads a block has.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/unrolled/cuda_artifact.hpp"
#include "kernels/cuda/unrolled/cuda_emitter.hpp"
#include "kernels/cuda/unrolled/cuda_units.hpp"
#include "kernels/cuda/unrolled/ptx_emitter.hpp"
#include "spjit/error.hpp"
#include "tests/support/cuda/emitter_cases.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

/// Four row tiles.
KernelPlan small_plan() { return cuda_plan(random_matrix(16, 12, 0.5), 4); }

CudaKernelSpec small_spec(std::vector<std::int32_t> function_of_tile) {
  CudaKernelSpec spec = cuda_spec(4, 40);
  spec.function_of_tile = std::move(function_of_tile);
  return spec;
}

/// Both texts.
std::vector<std::vector<SourceUnit>> emit_both(const KernelPlan& plan, const CudaKernelSpec& spec) {
  return {emit_cuda(plan, spec), emit_ptx(plan, spec, 90)};
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(CudaBlocks, RunTheFunctionsTheSpecNames) {
  const KernelPlan plan = small_plan();
  for (const std::int64_t unit_nonzeros : {1, 10000}) {
    CudaKernelSpec spec = small_spec({2, 0, 0, 3, 2, 1, 0});
    spec.tile.unit_nonzeros = unit_nonzeros;
    for (const std::vector<SourceUnit>& units : emit_both(plan, spec)) {
      const EmittedProgram program = read_emitted(units);

      ASSERT_EQ(program.targets.size(), 7U);
      for (std::size_t block = 0; block < 7; ++block) {
        EXPECT_EQ(program.targets[block], function_name(spec.function_of_tile[block]));
      }
    }
  }
}

TEST(CudaBlocks, OfWhichThereAreTooManyForOneTableHaveSeveral) {
  const KernelPlan plan = small_plan();
  std::vector<std::int32_t> function_of_tile(40000, 1);
  for (std::size_t block = 0; block < function_of_tile.size(); block += 1000) {
    function_of_tile[block] = static_cast<std::int32_t>(block / 1000 % 4);
  }
  const CudaKernelSpec spec = small_spec(function_of_tile);

  const std::vector<SourceUnit> units = emit_ptx(plan, spec, 90);

  EXPECT_TRUE(has(units.front().text, "setp.ge.u32 outside,tile,16380;\n@outside bra after_0;\n"));
  EXPECT_TRUE(has(units.front().text, "brx.idx tile,targets_32760;\n"));
  EXPECT_EQ(read_emitted(units).targets, read_emitted(emit_cuda(plan, spec)).targets);
}

TEST(CudaBlocks, MayLeaveFunctionsOut) {
  const KernelPlan plan = small_plan();
  for (const std::vector<SourceUnit>& units : emit_both(plan, small_spec({3, 3}))) {
    const EmittedProgram program = read_emitted(units);

    EXPECT_EQ(program.targets, (std::vector<std::string>{"spjit_tile_3", "spjit_tile_3"}));
    EXPECT_EQ(program.functions.size(), 4U);
  }
}

TEST(CudaBlocks, LookTheirFunctionUpInCudaAndShareLabelsInPtx) {
  const KernelPlan plan = small_plan();
  const CudaKernelSpec spec = small_spec({1, 0, 1, 2, 3});

  const std::string cuda = emit_cuda(plan, spec).front().text;
  const std::string ptx = emit_ptx(plan, spec, 90).front().text;

  EXPECT_TRUE(has(cuda, "const unsigned spjit_function_of_tile[5] = {1,0,1,2,3,};\n"));
  EXPECT_TRUE(has(cuda, "    switch (spjit_function_of_tile[blockIdx.x]) {\n      case 0:\n"));
  EXPECT_TRUE(has(ptx, "targets: .branchtargets to_1,to_0,to_1,to_2,to_3;\n"));
}

TEST(CudaBlocks, AreTheGridsX) {
  const KernelPlan plan = small_plan();
  const CudaKernelSpec spec = small_spec({1, 0, 1, 2, 3, 0});

  EXPECT_EQ(cuda_grid(plan, spec).x, 6);
  EXPECT_EQ(cuda_grid(plan, spec).y, 2);
  EXPECT_EQ(cuda_grid(plan, small_spec({})).x, 4);
  EXPECT_EQ(make_program(plan, spec, 90).blocks_x, 6);
}

TEST(CudaBlocks, HaveFunctionsThatExist) {
  const KernelPlan plan = small_plan();

  EXPECT_NO_THROW(check_cuda_spec(plan, small_spec({3, 0})));
  EXPECT_THROW(check_cuda_spec(plan, small_spec({4})), InvalidArgument);
  EXPECT_THROW(check_cuda_spec(plan, small_spec({0, -1})), InvalidArgument);
}

TEST(CudaBlocks, OfEmptyRowsCanBeNamedToo) {
  const KernelPlan plan = cuda_plan(with_empty_rows(200), 4);
  CudaKernelSpec spec = cuda_spec(4, 5);
  for (std::int64_t function = count_functions(plan) - 1; function >= 0; --function) {
    spec.function_of_tile.push_back(static_cast<std::int32_t>(function));
  }

  for (const std::vector<SourceUnit>& units : emit_both(plan, spec)) {
    EXPECT_TRUE(executes_as_evaluated(units, plan, spec));
  }
}

TEST(CudaBlocks, OfSeveralTilesAreFewerAndHaveMoreThreads) {
  const KernelPlan plan = small_plan();
  CudaKernelSpec spec = small_spec({1, 0, 1, 2, 3});
  spec.tile.tiles_a_block = 4;

  const std::string cuda = emit_cuda(plan, spec).front().text;
  const std::string ptx = emit_ptx(plan, spec, 90).front().text;

  EXPECT_EQ(cuda_grid(plan, spec).x, 2);
  EXPECT_EQ(make_program(plan, spec, 90).threads, 128);
  EXPECT_EQ(make_program(plan, spec, 90).n1(), 32);
  EXPECT_TRUE(has(cuda, "__launch_bounds__(128, 1)\n"));
  EXPECT_TRUE(has(cuda,
                  "  const unsigned tile = blockIdx.x * 4u + threadIdx.y;\n"
                  "  if (tile >= 5u) return;\n"));
  EXPECT_TRUE(has(ptx, ".maxntid 128, 1, 1\n"));
  EXPECT_TRUE(has(ptx, "mad.lo.u32 tile,tile,tiles,of_block;\nsetp.ge.u32 outside,tile,5;\n"));
  for (const std::vector<SourceUnit>& units : emit_both(plan, spec)) {
    EXPECT_EQ(read_emitted(units).targets.size(), 5U);
  }
}

TEST(CudaBlocks, OfSeveralTilesHaveWholeWarpsAndFitTheDevice) {
  const KernelPlan plan = small_plan();
  const auto refuses = [&](std::int64_t n1, std::int64_t tiles, const CudaLayer& layer = {}) {
    CudaKernelSpec spec = cuda_spec(4, 12);
    spec.tile.n1 = n1;
    spec.tile.tiles_a_block = tiles;
    spec.layer = layer;
    try {
      check_cuda_spec(plan, spec);
    } catch (const InvalidArgument&) {
      return true;
    }
    return false;
  };
  const CudaLayer tokens = {.b_layout = Layout::tokens_major};

  EXPECT_FALSE(refuses(256, 4));
  EXPECT_TRUE(refuses(288, 4));
  EXPECT_TRUE(refuses(32, 5));
  EXPECT_TRUE(refuses(32, 0));
  EXPECT_FALSE(refuses(48, 1));
  EXPECT_TRUE(refuses(48, 2));
  EXPECT_FALSE(refuses(64, 4, tokens));
  EXPECT_TRUE(refuses(128, 4, tokens));
}

TEST(RuntimeThreads, AreTheLaunchsAndTheBoundsAreTheSpecs) {
  const KernelPlan plan = small_plan();
  CudaKernelSpec spec = small_spec({});
  spec.runtime_threads = true;
  spec.tile.n1 = 96;
  spec.min_blocks = 3;

  const std::string cuda = emit_cuda(plan, spec).front().text;
  const std::string ptx = emit_ptx(plan, spec, 90).front().text;

  EXPECT_TRUE(has(cuda, "__launch_bounds__(96, 3)\n"));
  EXPECT_TRUE(has(cuda, "const unsigned j = blockIdx.y * blockDim.x + threadIdx.x;\n"));
  EXPECT_TRUE(has(ptx, ".maxntid 96, 1, 1\n.minnctapersm 3\n"));
  EXPECT_TRUE(has(ptx, "mov.u32 threads,%ntid.x;\nmad.lo.u32 j,j,threads,thread;\n"));
  EXPECT_TRUE(has(cuda, "  const unsigned tile = blockIdx.x * blockDim.y + threadIdx.y;\n"));
  EXPECT_TRUE(has(ptx, "mov.u32 tiles,%ntid.y;\n"));
}

TEST(RuntimeThreads, ChangeNothingInTheTiles) {
  const KernelPlan plan = small_plan();
  CudaKernelSpec spec = small_spec({});
  spec.runtime_threads = true;

  for (const std::vector<SourceUnit>& units : emit_both(plan, spec)) {
    EXPECT_TRUE(executes_as_evaluated(units, plan, spec));
    EXPECT_EQ(read_emitted(units).threads, 0);
  }
}

}  // namespace

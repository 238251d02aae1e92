#include "kernels/cuda/unrolled/cuda_proxy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "kernels/cuda/unrolled/cuda_units.hpp"
#include "spjit/error.hpp"
#include "tests/support/cuda/cuda_proxy_cases.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

CudaCandidate candidate(std::int64_t m1, std::int64_t n1) {
  CudaCandidate made;
  made.tile.m1 = m1;
  made.tile.n1 = n1;
  return made;
}

/// One launch's blocks, and what an SM can hold of them.
CudaCandidate candidate_of_blocks(std::int64_t blocks, std::int64_t active_blocks) {
  CudaCandidate made;
  made.blocks = blocks;
  made.occupancy.active_blocks = active_blocks;
  return made;
}

/// Blocks that an SM has at once where the device runs `blocks` of a launch: what it holds, or what
/// there is for it.
std::int64_t blocks_at_once(const CudaDeviceInfo& limits, const CudaProxyLaunch& launch,
                            std::int64_t registers, std::int64_t blocks) {
  const Occupancy held = occupancy(limits, {.threads = launch.threads * launch.tiles_a_block,
                                            .registers_per_thread = registers,
                                            .static_shared_bytes = 0,
                                            .dynamic_shared_bytes = launch.dynamic_shared_bytes});
  return std::min(held.active_blocks, (blocks + limits.sms - 1) / limits.sms);
}

TEST(CudaProxy, ServesEveryN1OfAnM1) {
  EXPECT_TRUE(share_proxy(candidate(16, 64), candidate(16, 32)));
  EXPECT_TRUE(share_proxy(candidate(8, 64), candidate(8, 256)));
  EXPECT_FALSE(share_proxy(candidate(16, 64), candidate(8, 64)));
  CudaCandidate pair = candidate(16, 64);
  pair.tile.tiles_a_block = 2;
  EXPECT_TRUE(share_proxy(candidate(16, 64), pair));
  pair.layer.b_layout = Layout::tokens_major;
  CudaCandidate alone = pair;
  alone.tile.tiles_a_block = 1;
  EXPECT_FALSE(share_proxy(alone, pair));
}

TEST(CudaProxy, ServesOneGroupingAndOneCapOfTheGrid) {
  CudaCandidate balanced = candidate(16, 64);
  balanced.tile.reorder = ReorderAlgorithm::balanced;
  CudaCandidate of_grid = candidate(16, 64);
  of_grid.tile.cap = CudaCap::grid;
  of_grid.register_cap = 128;
  CudaCandidate wide = of_grid;
  wide.tile.n1 = 256;
  CudaCandidate loose = wide;
  loose.register_cap = 168;

  EXPECT_FALSE(share_proxy(candidate(16, 64), balanced));
  EXPECT_FALSE(share_proxy(candidate(16, 64), of_grid));
  EXPECT_TRUE(share_proxy(of_grid, wide));
  EXPECT_FALSE(share_proxy(wide, loose));
}

TEST(CudaProxyActiveBlocks, AreTheBlocksAnSmGetsOrWhatItHolds) {
  const CudaDeviceInfo limits = cuda_limits(100);

  EXPECT_EQ(active_blocks_of(candidate_of_blocks(1000, 4), limits), 4);
  EXPECT_EQ(active_blocks_of(candidate_of_blocks(201, 4), limits), 3);
  EXPECT_EQ(active_blocks_of(candidate_of_blocks(200, 4), limits), 2);
  EXPECT_EQ(active_blocks_of(candidate_of_blocks(3, 4), limits), 1);
  EXPECT_EQ(active_blocks_of(candidate_of_blocks(1000, 0), limits), 1);
}

TEST(CudaProxy, EveryRowTileRunsItsOwnCluster) {
  const ProxyCase given = proxy_case(random_matrix(3000, 60, 0.9), 4, 512, {64, 128, 256});

  const CudaProxy made = make_cuda_proxy(given.plan, given.candidates, given.limits);

  ASSERT_EQ(std::ssize(made.spec.function_of_tile), given.plan.grouping.tiles());
  ASSERT_LT(made.proxy.plan.grouping.tiles(), given.plan.grouping.tiles());
  for (std::int64_t tile = 0; tile < given.plan.grouping.tiles(); ++tile) {
    const auto cluster = made.spec.function_of_tile[index(tile)];
    const std::vector<std::int64_t>& tiles = made.proxy.clusters[index(cluster)].tiles;
    EXPECT_EQ(std::ranges::count(tiles, tile), 1) << tile;
  }
  EXPECT_EQ(cuda_grid(made.proxy.plan, made.spec).x, given.candidates.front().row_tiles);
}

TEST(CudaProxy, HasThreadsAndClustersForTheLargestBlock) {
  ProxyCase given = proxy_case(random_matrix(3000, 60, 0.9), 4, 512, {64, 128});
  const CudaProxy of_one = make_cuda_proxy(given.plan, given.candidates, given.limits);
  given.candidates[1].tile.tiles_a_block = 4;

  const CudaProxy made = make_cuda_proxy(given.plan, given.candidates, given.limits);

  EXPECT_EQ(made.spec.tile.threads(), 512);
  EXPECT_EQ(made.spec.tile.tiles_a_block, 1);
  EXPECT_GT(made.proxy.clusters.size(), of_one.proxy.clusters.size());
}

TEST(CudaProxy, HasThreeClustersForEachActiveBlockOfTheCandidateWithMost) {
  const ProxyCase given = proxy_case(random_matrix(3000, 60, 0.9), 4, 512, {256, 64, 512});
  std::int64_t most = 0;
  for (const CudaCandidate& member : given.candidates) {
    most = std::max(most, active_blocks_of(member, given.limits));
  }

  const CudaProxy made = make_cuda_proxy(given.plan, given.candidates, given.limits);

  EXPECT_GT(most, 1);
  EXPECT_LE(std::ssize(made.proxy.clusters), 3 * most);
  EXPECT_EQ(count_functions(made.proxy.plan), std::ssize(made.proxy.clusters));
}

TEST(CudaProxy, HasTheSizesOfTheKernelAndTheMostThreadsOfAllCandidates) {
  const ProxyCase given = proxy_case(random_matrix(300, 60, 0.8), 8, 100, {64, 256, 32},
                                     {.runtime_sizes = true, .ldb = 104, .ldc = 120});

  const CudaProxy made = make_cuda_proxy(given.plan, given.candidates, given.limits);

  EXPECT_TRUE(made.spec.runtime_threads);
  EXPECT_TRUE(made.spec.tile.runtime_sizes);
  EXPECT_EQ(made.spec.tile.n1, 256);
  EXPECT_EQ(made.spec.tile.m1, 8);
  EXPECT_EQ(made.spec.n, 100);
  EXPECT_EQ(made.spec.ldb, 104);
  EXPECT_EQ(made.spec.ldc, 120);
}

TEST(CudaProxy, MayUseTheRegistersThatEveryCandidateLeaves) {
  for (const std::int64_t m1 : {4, 16, 48, 96}) {
    const ProxyCase given = proxy_case(random_matrix(1000, 100, 0.5), m1, 1024, {32, 96, 512, 256});

    const CudaProxy made = make_cuda_proxy(given.plan, given.candidates, given.limits);

    std::int64_t least = 255;
    for (const CudaCandidate& member : given.candidates) {
      least = std::min(least, register_cap(given.limits, member.tile.n1, member.min_blocks));
      EXPECT_GE(made.register_cap, member.registers.total());
    }
    EXPECT_EQ(made.register_cap, least);
    // Launch bounds leave no less than the cap, and with one block more would.
    EXPECT_GE(register_cap(given.limits, made.spec.tile.n1, made.spec.min_blocks), least);
    EXPECT_LT(register_cap(given.limits, made.spec.tile.n1, made.spec.min_blocks + 1), least);
  }
}

TEST(CudaProxy, WithoutReductionsIsAsLargeAsThePlan) {
  const ProxyCase given = proxy_case(random_matrix(200, 400, 0.2), 8, 64, {32, 64});

  const CudaProxy made = make_cuda_proxy(given.plan, given.candidates, given.limits,
                                         {.reduce_blocks = false, .reduce_iterations = false});

  EXPECT_EQ(made.proxy.plan.nnz(), given.plan.nnz());
  EXPECT_EQ(made.proxy.plan.grouping.tiles(), given.plan.grouping.tiles());
  for (std::int64_t tile = 0; tile < given.plan.grouping.tiles(); ++tile) {
    EXPECT_EQ(made.spec.function_of_tile[index(tile)], tile);
  }
}

TEST(CudaProxy, RefusesCandidatesOfSeveralGroupsAndOtherPlans) {
  const CsrMatrix matrix = random_matrix(200, 60, 0.8);
  const ProxyCase given = proxy_case(matrix, 8, 64, {32, 64});
  const auto refuses = [&](const KernelPlan& plan, const auto& change) {
    std::vector<CudaCandidate> members = given.candidates;
    change(members);
    EXPECT_THROW(static_cast<void>(make_cuda_proxy(plan, members, given.limits)), InvalidArgument);
  };
  const auto unchanged = [](const auto& /*members*/) {};

  refuses(given.plan, [](auto& members) { members.clear(); });
  refuses(given.plan, [](auto& members) { members[1].tile.unit_nonzeros = 1; });
  refuses(given.plan, [](auto& members) { members[1].tile.m1 = 16; });
  refuses(given.plan, [](auto& members) { members[1].work.n = 65; });
  refuses(cuda_plan(matrix, 16), unchanged);
  refuses(cuda_plan(random_matrix(100, 60, 0.8), 8), unchanged);
  const ProxyCase nothing = proxy_case({3, 4, {0, 0, 0, 0}, {}, {}}, 1, 8, {32});
  EXPECT_THROW(static_cast<void>(make_cuda_proxy(nothing.plan, nothing.candidates, nothing.limits)),
               InvalidArgument);
}

TEST(CudaProxyLaunch, GivesAnSmTheBlocksOfTheFullKernel) {
  int with_shared_memory = 0;
  const CsrMatrix matrix = random_matrix(768, 64, 0.9);
  for (const CudaDeviceInfo& limits : known_cuda_cards()) {
    for (const std::int64_t n : {96, 1000, 8192}) {
      const CudaTileSpace space = cuda_space(cuda_problem(matrix, n), cuda_policy(), limits);
      for (const CudaCandidate& member : space.survivors()) {
        // What a proxy compiles to: its own prediction, or less.
        for (const std::int64_t registers : {24L, member.registers.total()}) {
          const CudaProxyLaunch launch = launch_of(member, registers, limits);
          SCOPED_TRACE(testing::Message() << limits.name() << " " << to_string(member.tile));

          ASSERT_EQ(launch.note, "");
          ASSERT_EQ(blocks_at_once(limits, launch, registers, member.blocks),
                    active_blocks_of(member, limits));
          ASSERT_EQ(launch.grid_x,
                    (member.row_tiles + launch.tiles_a_block - 1) / launch.tiles_a_block);
          ASSERT_EQ(launch.tiles_a_block, member.tile.tiles_a_block);
          ASSERT_EQ(launch.grid_y, (n + launch.threads - 1) / launch.threads);
          ASSERT_EQ(launch.threads, member.tile.n1);
          with_shared_memory += launch.dynamic_shared_bytes > 0 ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(with_shared_memory, 100);
}

/// 256 threads of 32 registers, of which an SM of an H100 holds 8 blocks, in a grid of so many.
CudaCandidate eight_at_once(std::int64_t blocks) {
  CudaCandidate made = candidate_of_blocks(blocks, 8);
  made.tile.n1 = 256;
  made.row_tiles = blocks;
  made.column_tiles = 1;
  return made;
}

TEST(CudaProxyLaunch, OfFewBlocksTakesNoSharedMemoryFromTheCache) {
  const CudaDeviceInfo limits = cuda_limits(100);
  // 1, 3 and 8 blocks for each SM. Of 801 there are 9 for one, but 8 x 256 threads fill it.
  for (const std::int64_t blocks : {1, 300, 800, 801}) {
    const CudaProxyLaunch launch = launch_of(eight_at_once(blocks), 24, limits);

    EXPECT_EQ(launch.dynamic_shared_bytes, 0) << blocks;
    EXPECT_EQ(launch.note, "") << blocks;
  }
}

TEST(CudaProxyLaunch, OfMoreBlocksThanTheKernelHasAtOnceLimitsTheProxy) {
  const CudaDeviceInfo limits = cuda_limits(100);
  CudaCandidate five = eight_at_once(500);
  five.occupancy.active_blocks = 5;
  CudaCandidate five_of_many = five;
  five_of_many.blocks = 501;

  EXPECT_EQ(launch_of(five, 24, limits).dynamic_shared_bytes, 0);
  EXPECT_GT(launch_of(five_of_many, 24, limits).dynamic_shared_bytes, 0);
  EXPECT_EQ(blocks_at_once(limits, launch_of(five_of_many, 24, limits), 24, 501), 5);
}

TEST(CudaProxyLaunch, SaysWhenAProxyOfFewBlocksHasTooManyRegisters) {
  const CudaDeviceInfo limits = cuda_limits(100);

  // 256 threads of 128 registers are 2 blocks an SM.
  EXPECT_EQ(launch_of(eight_at_once(200), 128, limits).note, "");
  EXPECT_NE(launch_of(eight_at_once(300), 128, limits).note.find("3 active blocks"),
            std::string::npos);
}

TEST(CudaProxyLaunch, SaysWhatNoSharedMemoryCanDo) {
  const ProxyCase given = proxy_case(random_matrix(3000, 60, 0.9), 4, 4096, {256});
  const std::int64_t wanted = active_blocks_of(given.candidates.front(), given.limits);
  ASSERT_GT(wanted, 1);

  const CudaProxyLaunch launch = launch_of(given.candidates.front(), 255, given.limits);

  EXPECT_EQ(launch.dynamic_shared_bytes, 0);
  EXPECT_NE(launch.note.find(std::to_string(wanted) + " active blocks"), std::string::npos);
}

TEST(CudaProxy, IsNeverLargerThanTheKernelOnRandomPlans) {
  std::mt19937_64 random(20240919);
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (int i = 0; i < 100; ++i) {
    GenerateOptions generate;
    generate.rows = pick(1, 400);
    generate.cols = pick(1, 500);
    generate.sparsity = static_cast<double>(pick(0, 99)) / 100;
    generate.pattern = static_cast<MatrixPattern>(pick(0, 3));
    generate.seed = random();
    const CsrMatrix matrix = generate_matrix(generate);
    if (matrix.nnz() == 0) continue;
    const ProxyCase given = proxy_case(matrix, pick(1, 64), pick(1, 600), {32, 64, 256});
    SCOPED_TRACE(testing::Message() << i << ": " << generate.rows << "x" << generate.cols << " at "
                                    << generate.sparsity << ", m1 " << given.plan.grouping.m1);

    const CudaProxy made = make_cuda_proxy(given.plan, given.candidates, given.limits);

    std::int64_t most = 0;
    for (const CudaCandidate& member : given.candidates) {
      most = std::max(most, active_blocks_of(member, given.limits));
    }
    ASSERT_TRUE(is_no_larger(made.proxy.plan, given.plan));
    ASSERT_LE(std::ssize(made.proxy.clusters), 3 * most);
    for (std::int64_t f = 0; f < count_functions(made.proxy.plan); ++f) {
      ASSERT_EQ(std::ranges::count(made.spec.function_of_tile, f),
                std::ssize(made.proxy.clusters[index(f)].tiles));
    }
  }
}

TEST(CudaProxy, TextsSendEveryBlockToItsCluster) {
  const ProxyCase given = proxy_case(random_matrix(120, 40, 0.7), 4, 6, {32, 64});
  const CudaProxy made = make_cuda_proxy(given.plan, given.candidates, given.limits);

  for (const CudaSource source : {CudaSource::cuda, CudaSource::ptx}) {
    const EmittedProgram program = read_emitted(emit_cuda_proxy(made, source, 90));

    ASSERT_EQ(std::ssize(program.targets), given.plan.grouping.tiles());
    for (std::int64_t block = 0; block < given.plan.grouping.tiles(); ++block) {
      EXPECT_EQ(program.targets[index(block)],
                function_name(made.spec.function_of_tile[index(block)]));
    }
    EXPECT_EQ(program.threads, 0);
    EXPECT_EQ(program.bound, 6);
  }
}

}  // namespace

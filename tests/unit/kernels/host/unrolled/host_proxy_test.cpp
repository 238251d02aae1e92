#include "kernels/host/unrolled/host_proxy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "spjit/error.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::CsrMatrix;
using spjit::HostArtifact;
using spjit::HostIsa;
using spjit::HostProgramRecord;
using spjit::HostProxyLimits;
using spjit::HostReductions;
using spjit::HostTile;
using spjit::KernelPlan;
using spjit::ReorderAlgorithm;
using spjit::testing_support::host_tile;
using spjit::testing_support::index;
using spjit::testing_support::random_matrix;

CsrMatrix matrix_of(spjit::MatrixPattern pattern, double sparsity = 0.9) {
  spjit::GenerateOptions options;
  options.sparsity = sparsity;
  options.pattern = pattern;
  return spjit::generate_matrix(options);
}

KernelPlan plan_of(const CsrMatrix& matrix, std::int64_t m1,
                   ReorderAlgorithm reorder = ReorderAlgorithm::similarity) {
  return spjit::build_plan(matrix, spjit::group_rows(matrix, m1, reorder),
                           std::max<std::int64_t>(matrix.cols, 1));
}

/// 96 columns; proxies and kernels need no matrix besides the plan.
spjit::Problem shape() {
  spjit::Problem problem;
  problem.n = 96;
  return problem;
}

HostArtifact proxy_of(const KernelPlan& plan, const HostTile& tile,
                      const HostReductions& reductions = {}) {
  return spjit::make_host_proxy(plan, tile, shape(), HostIsa::avx512, {.reductions = reductions});
}

HostArtifact kernel_of(const KernelPlan& plan, const HostTile& tile) {
  const std::int64_t block = tile.k_block > 0 ? tile.k_block : plan.cols;
  return spjit::make_unrolled_artifact(spjit::with_k_block(plan, block), tile, shape(),
                                       HostIsa::avx512);
}

/// Code of each tile's first block of columns.
std::set<std::string> different_tiles(const HostArtifact& artifact) {
  const HostProgramRecord record = spjit::read_program(artifact.image());
  std::set<std::string> codes;
  for (std::int64_t tile = 0; tile < record.tiles(); ++tile) {
    const std::size_t segment = index(tile * record.k_blocks);
    const auto begin = artifact.text.begin() + record.segment_offsets[segment];
    const auto end = segment + 1 < record.segment_offsets.size()
                         ? artifact.text.begin() + record.segment_offsets[segment + 1]
                         : artifact.text.end();
    std::string code(begin, end);
    // Functions are padded to where the next begins.
    while (!code.empty() && code.back() == '\0') code.pop_back();
    codes.insert(std::move(code));
  }
  return codes;
}

void expect_same(const HostArtifact& left, const HostArtifact& right) {
  EXPECT_EQ(left.text, right.text);
  EXPECT_EQ(left.weights, right.weights);
  EXPECT_EQ(left.program, right.program);
}

TEST(HostProxy, HasTheKernelsTilesAndNearlyItsBytesButFewDifferentTiles) {
  for (const auto pattern : {spjit::MatrixPattern::uniform, spjit::MatrixPattern::uneven_rows,
                             spjit::MatrixPattern::power_law}) {
    const CsrMatrix matrix = matrix_of(pattern);
    for (const HostTile& tile : {host_tile(28), host_tile(7, 2), host_tile(14, 2, 128)}) {
      const KernelPlan plan = plan_of(matrix, tile.m1);
      const HostArtifact kernel = kernel_of(plan, tile);

      const HostArtifact proxy = proxy_of(plan, tile);

      const HostProgramRecord whole = spjit::read_program(kernel.image());
      const HostProgramRecord record = spjit::read_program(proxy.image());
      const std::string what = std::string(to_string(pattern)) + " " + to_string(tile);
      EXPECT_EQ(record.tile_ends, whole.tile_ends) << what;
      EXPECT_EQ(record.k_blocks, whole.k_blocks) << what;
      EXPECT_EQ(record.header.rows, whole.header.rows) << what;
      EXPECT_EQ(record.header.cols, whole.header.cols) << what;
      EXPECT_EQ(record.empty_rows, whole.empty_rows) << what;
      EXPECT_EQ(record.tile, tile) << what;
      const auto ratio = [](std::size_t left, std::size_t right) {
        return static_cast<double>(left) / static_cast<double>(right);
      };
      EXPECT_NEAR(ratio(proxy.text.size(), kernel.text.size()), 1, 0.03) << what;
      EXPECT_NEAR(ratio(proxy.weights.size(), kernel.weights.size()), 1, 0.03) << what;
      const std::size_t emitted = different_tiles(proxy).size();
      EXPECT_LE(emitted, index(spjit::proxy_clusters(plan, {}))) << what;
      EXPECT_LT(emitted, different_tiles(kernel).size()) << what;
      EXPECT_GT(emitted, 1U) << what;
    }
  }
}

TEST(HostProxy, IsTheKernelWhereThatHasNoMoreTiles) {
  const CsrMatrix matrix = random_matrix(200, 300, 0.8);
  for (const HostTile& tile : {host_tile(28), host_tile(25, 1, 100)}) {
    const KernelPlan plan = plan_of(matrix, tile.m1);

    ASSERT_LE(plan.grouping.tiles(), spjit::proxy_clusters(plan, {}));
    expect_same(proxy_of(plan, tile), kernel_of(plan, tile));
  }
}

TEST(HostProxy, IsTheKernelWhereTilesAreNotReduced) {
  const KernelPlan plan = plan_of(random_matrix(400, 300, 0.8), 7);

  expect_same(proxy_of(plan, host_tile(7), {.tiles = false}), kernel_of(plan, host_tile(7)));
}

TEST(HostProxy, CutsColumnsOnlyIfAsked) {
  // 300 / 0.9 columns of 512.
  const KernelPlan plan = plan_of(random_matrix(280, 512, 0.1), 28);

  const HostArtifact cut = proxy_of(plan, host_tile(28), {.tiles = false, .iterations = true});

  const double share = static_cast<double>(cut.weights.size()) /
                       static_cast<double>(kernel_of(plan, host_tile(28)).weights.size());
  EXPECT_NEAR(share, 300 / 0.9 / 512, 0.02);
}

TEST(HostProxy, OfAMatrixWithoutEntriesIsItsKernel) {
  const CsrMatrix empty{3, 4, {0, 0, 0, 0}, {}, {}};
  const KernelPlan plan = plan_of(empty, 2);

  expect_same(proxy_of(plan, host_tile(2)), kernel_of(plan, host_tile(2)));
}

/// 400 rows with a single entry each, spread over 40 columns.
CsrMatrix stripes() {
  CsrMatrix matrix{400, 40, {0}, {}, {}};
  for (std::int32_t row = 0; row < 400; ++row) {
    matrix.col_idxs.push_back(row % 40);
    matrix.values.push_back(1);
    matrix.row_ptrs.push_back(row + 1);
  }
  return matrix;
}

TEST(HostProxyClusters, ByHand) {
  const auto clusters = [](const CsrMatrix& matrix, std::int64_t m1, HostProxyLimits limits = {}) {
    return spjit::proxy_clusters(plan_of(matrix, m1, ReorderAlgorithm::none), limits);
  };

  // Two columns a tile, and each of 40 is to be loaded three times.
  EXPECT_EQ(clusters(stripes(), 2), 60);
  EXPECT_EQ(clusters(stripes(), 2, {.b_rows = 1}), 20);
  // 30 columns: 3 x 40 / 30 = 4, but 8 at least.
  EXPECT_EQ(clusters(stripes(), 30), 8);
  EXPECT_EQ(clusters(stripes(), 30, {.clusters = 11}), 11);
  // Four tiles.
  EXPECT_EQ(clusters(stripes(), 100), 4);
  EXPECT_EQ(clusters({3, 4, {0, 0, 0, 0}, {}, {}}, 2), 1);
}

TEST(CopiedTiles, TheIdentityIsTheSameProgram) {
  for (const std::int64_t k_block : {0, 64}) {
    const KernelPlan plan = plan_of(random_matrix(60, 200, 0.8), 14);
    const HostArtifact artifact = kernel_of(plan, host_tile(14, 1, k_block));
    std::vector<std::int32_t> all(index(plan.grouping.tiles()));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int32_t>(i);

    expect_same(spjit::copy_tiles(artifact, all), artifact);
  }
}

TEST(HostProxy, OfJoinedTilesIsTheKernel) {
  const CsrMatrix matrix = matrix_of(spjit::MatrixPattern::uniform);
  HostTile tile = host_tile(7, 2);
  tile.join_bytes = 28 << 10;
  const KernelPlan plan = plan_of(matrix, tile.m1);

  ASSERT_GT(plan.grouping.tiles(), spjit::proxy_clusters(plan, {}));
  for (const bool iterations : {false, true}) {
    expect_same(proxy_of(plan, tile, {.iterations = iterations}), kernel_of(plan, tile));
  }
}

TEST(CopiedTiles, AreCopiesOfCodeAndWeightsBlockByBlock) {
  const KernelPlan plan = plan_of(random_matrix(30, 200, 0.8), 14, ReorderAlgorithm::none);
  const HostArtifact from = kernel_of(plan, host_tile(14, 1, 100));

  const HostArtifact copied = spjit::copy_tiles(from, {1, 1, 0, 1});

  const HostProgramRecord before = spjit::read_program(from.image());
  const HostProgramRecord record = spjit::read_program(copied.image());
  const auto nnz_of = [&](std::int64_t tile) {
    return before.tile_nnz_ends[index(tile)] -
           (tile > 0 ? before.tile_nnz_ends[index(tile) - 1] : 0);
  };
  EXPECT_EQ(record.tile_ends, (std::vector<std::int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(record.header.nnz, 3 * nnz_of(1) + nnz_of(0));
  EXPECT_EQ(std::ssize(copied.weights), record.header.nnz);
  const std::vector<std::int64_t> origin = {1, 1, 0, 1};
  for (std::size_t segment = 0; segment < 8; ++segment) {
    const std::size_t source = index(origin[segment / 2]) * 2 + segment % 2;
    const auto bytes = source + 1 < before.segment_offsets.size()
                           ? before.segment_offsets[source + 1] - before.segment_offsets[source]
                           : std::ssize(from.text) - before.segment_offsets[source];
    EXPECT_EQ(record.segment_offsets[segment] % 64, 0);
    EXPECT_TRUE(std::equal(from.text.begin() + before.segment_offsets[source],
                           from.text.begin() + before.segment_offsets[source] + bytes,
                           copied.text.begin() + record.segment_offsets[segment]))
        << segment;
    EXPECT_EQ(copied.weights[index(record.weight_offsets[segment])],
              from.weights[index(before.weight_offsets[source])]);
  }
}

TEST(WithLoopOrder, ChangesOnlyTheLoopOrder) {
  const HostArtifact artifact = kernel_of(plan_of(random_matrix(60, 200, 0.8), 14), host_tile(14));
  HostTile reordered = host_tile(14);
  reordered.panel_group = 6;
  reordered.row_group = 2;

  const HostArtifact result = spjit::with_loop_order(artifact, reordered);

  HostProgramRecord expected = spjit::read_program(artifact.image());
  expected.tile = reordered;
  EXPECT_EQ(result.text, artifact.text);
  EXPECT_EQ(result.weights, artifact.weights);
  EXPECT_EQ(spjit::read_program(result.image()), expected);
}

/// A tile that differs in one thing that code depends on.
std::vector<HostTile> tiles_of_other_code() {
  std::vector<HostTile> tiles(7, host_tile(14));
  tiles[0].m1 = 13;
  tiles[1].nv = 2;
  tiles[2].k_block = 64;
  tiles[3].pack_b = false;
  tiles[4].form = spjit::WeightForm::register_;
  tiles[5].memory_rows = 2;
  tiles[6].stream_c = true;
  return tiles;
}

TEST(WithLoopOrder, RefusesTilesOfOtherCode) {
  const HostArtifact artifact = kernel_of(plan_of(random_matrix(60, 200, 0.8), 14), host_tile(14));
  for (const HostTile& tile : tiles_of_other_code()) {
    EXPECT_THROW(static_cast<void>(spjit::with_loop_order(artifact, tile)), spjit::InvalidArgument)
        << to_string(tile);
  }
}

TEST(ShareCode, LooksAtAllButTheLoopOrder) {
  HostTile reordered = host_tile(14);
  reordered.panel_group = 5;
  reordered.row_group = 3;

  EXPECT_TRUE(spjit::share_code(host_tile(14), reordered));
  EXPECT_TRUE(spjit::share_code(reordered, host_tile(14)));
  for (const HostTile& tile : tiles_of_other_code()) {
    EXPECT_FALSE(spjit::share_code(tile, reordered)) << to_string(tile);
  }
}

/// 10 nonzeros and 1000 FMAs: 100 columns at least.
std::int64_t window(const HostTile& tile, std::int64_t n, std::int64_t threads = 1) {
  return spjit::window_columns(tile, 16, {.nnz = 10, .n = n, .threads = threads},
                               {.window_fmas = 1000});
}

TEST(WindowColumns, ByHand) {
  EXPECT_EQ(window(host_tile(14), 224), 112);
  EXPECT_EQ(window(host_tile(14), 1000), 112);
  EXPECT_EQ(window(host_tile(14), 223), 0);  // not twice 112
  EXPECT_EQ(spjit::window_columns(host_tile(14), 16, {.nnz = 0, .n = 1000}, {}), 0);
}

TEST(WindowColumns, AreWholeGroupsOfPanelsOneForEachThread) {
  HostTile grouped = host_tile(14);
  grouped.panel_group = 3;
  HostTile all_panels = host_tile(14);
  all_panels.panel_group = 1000;

  EXPECT_EQ(window(grouped, 288), 144);
  EXPECT_EQ(window(grouped, 287), 0);
  EXPECT_EQ(window(host_tile(14), 256, 8), 128);
  EXPECT_EQ(window(host_tile(14), 255, 8), 0);
  EXPECT_EQ(window(all_panels, 10'000), 0);
}

TEST(WindowColumns, RowGroupsNeedAll) {
  HostTile tile = host_tile(14);
  tile.row_group = 2;

  EXPECT_EQ(window(tile, 10'000), 0);
}

}  // namespace

// Proxies compute nonsense, but read and write only what their kernels do.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "artifact/argument_checks.hpp"
#include "kernels/host/unrolled/host_proxy.hpp"
#include "kernels/host/unrolled/host_timer.hpp"
#include "kernels/host/unrolled/unrolled_executable.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/guarded_buffers.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::CsrMatrix;
using spjit::HostArtifact;
using spjit::HostIsa;
using spjit::HostTile;
using spjit::testing_support::GuardedFloats;
using spjit::testing_support::GuardPlacement;
using spjit::testing_support::index;
using spjit::testing_support::isa_and_placement;
using spjit::testing_support::IsaAndPlacement;
using spjit::testing_support::k_placements;
using spjit::testing_support::open_image;

constexpr std::int64_t k_proxy_rows = 300;
constexpr std::int64_t k_proxy_cols = 150;
constexpr std::int64_t k_empty_row = 5;
constexpr float k_untouched = -7.25F;

CsrMatrix matrix_with_an_empty_row() {
  const CsrMatrix full = spjit::testing_support::random_matrix(k_proxy_rows, k_proxy_cols, 0.8);
  CsrMatrix matrix{k_proxy_rows, k_proxy_cols, {0}, {}, {}};
  for (std::size_t row = 0; row < index(k_proxy_rows); ++row) {
    const auto begin = full.row_ptrs[row];
    const auto end = row == index(k_empty_row) ? begin : full.row_ptrs[row + 1];
    matrix.col_idxs.insert(matrix.col_idxs.end(), full.col_idxs.begin() + begin,
                           full.col_idxs.begin() + end);
    matrix.values.insert(matrix.values.end(), full.values.begin() + begin,
                         full.values.begin() + end);
    matrix.row_ptrs.push_back(matrix.nnz());
  }
  return matrix;
}

/// With fewer different tiles than it has tiles.
HostArtifact proxy_of(const HostTile& tile, HostIsa isa, std::int64_t n, std::int64_t ldb) {
  const CsrMatrix matrix = matrix_with_an_empty_row();
  const auto plan = spjit::build_plan(
      matrix, spjit::group_rows(matrix, tile.m1, spjit::ReorderAlgorithm::similarity),
      k_proxy_cols);
  EXPECT_GT(plan.grouping.tiles(), spjit::proxy_clusters(plan, {}));
  spjit::Problem problem;
  problem.n = n;
  problem.b.leading_dimension = ldb;
  return spjit::make_host_proxy(plan, tile, problem, isa, {});
}

/// Tiles of every loop order and way to read B.
std::vector<HostTile> tiles_for(HostIsa isa) {
  std::vector<HostTile> tiles;
  for (const std::int64_t k_block : {0, 64}) {
    for (const bool pack_b : {true, false}) {
      for (const std::int64_t nv : {1, 2}) {
        HostTile tile;
        tile.m1 = isa == HostIsa::avx512 ? 14 / nv : 12 / nv;
        tile.nv = nv;
        tile.k_block = k_block;
        tile.pack_b = pack_b;
        tile.panel_group = nv == 1 ? 2 : 1;
        tile.row_group = k_block > 0 ? 3 : 0;
        tiles.push_back(tile);
      }
    }
  }
  return tiles;
}

class ProxyKernel : public testing::TestWithParam<IsaAndPlacement> {
 protected:
  void SetUp() override {
    if (!spjit::testing_support::compiles_and_runs(isa())) {
      GTEST_SKIP() << "this CPU lacks " << to_string(isa());
    }
  }
  static HostIsa isa() { return std::get<HostIsa>(GetParam()); }
  static GuardPlacement placement() { return std::get<GuardPlacement>(GetParam()); }
};

TEST_P(ProxyKernel, TouchesNothingOutsideBAndC) {
  constexpr std::int64_t k_n = 50;
  constexpr std::int64_t k_ld = 53;
  for (const HostTile& tile : tiles_for(isa())) {
    const HostArtifact proxy = proxy_of(tile, isa(), k_n, k_ld);
    const spjit::LoadedKernel kernel = open_image(proxy.image());
    const spjit::testing_support::GuardedBuffers guarded(placement());
    const GuardedFloats b((k_proxy_cols - 1) * k_ld + k_n, placement());
    const GuardedFloats c((k_proxy_rows - 1) * k_ld + k_n, placement());
    std::ranges::fill(b.span(), 0.5F);
    std::ranges::fill(c.span(), k_untouched);

    kernel.executable->run(spjit::checked_arguments(
        kernel.info, {.b = {b.data(), {.ld = k_ld}}, .c = {c.data(), {.ld = k_ld}}, .n = k_n}));

    EXPECT_TRUE(b.intact() && c.intact()) << to_string(tile);
    for (std::int64_t i = 0; i < std::ssize(c.span()); ++i) {
      const float value = c.span()[index(i)];
      ASSERT_TRUE(std::isfinite(value)) << to_string(tile);
      if (i % k_ld >= k_n) {
        ASSERT_EQ(value, k_untouched) << to_string(tile) << " at " << i;
      }
    }
    EXPECT_NE(c.span()[0], k_untouched) << to_string(tile);
  }
}

TEST_P(ProxyKernel, AWindowTouchesOnlyItsColumns) {
  constexpr std::int64_t k_n = 256;
  constexpr std::int64_t k_first = 64;
  constexpr std::int64_t k_window = 64;
  for (const HostTile& tile : tiles_for(isa())) {
    const HostArtifact proxy = proxy_of(tile, isa(), k_n, k_n);
    const spjit::LoadedKernel kernel = open_image(proxy.image());
    const auto& unrolled = dynamic_cast<const spjit::UnrolledMultiplier&>(
        dynamic_cast<const spjit::HostExecutable&>(*kernel.executable).multiplier());
    const spjit::HostProgram program = unrolled.in_order_of(tile);
    const spjit::HostSplit split = spjit::choose_split(program, k_window, 1);
    const GuardedFloats workspace(spjit::workspace_floats(program, split), placement());
    // The window's last row ends where readable memory does.
    const GuardedFloats b((k_proxy_cols - 1) * k_n + k_window, placement());
    const GuardedFloats c(k_proxy_rows * k_n, placement());
    std::ranges::fill(b.span(), 0.5F);
    std::ranges::fill(c.span(), k_untouched);

    spjit::execute(program, split, {b.data(), k_n, c.data() + k_first, k_n, k_window},
                   workspace.data(), nullptr);

    EXPECT_TRUE(b.intact() && c.intact() && workspace.intact()) << to_string(tile);
    for (std::int64_t i = 0; i < std::ssize(c.span()); ++i) {
      const std::int64_t column = i % k_n;
      if (column >= k_first && column < k_first + k_window) continue;
      ASSERT_EQ(c.span()[index(i)], k_untouched) << to_string(tile) << " at " << i;
    }
    EXPECT_NE(c.span()[k_first], k_untouched) << to_string(tile);
  }
}

TEST_P(ProxyKernel, RacesWithItsWholeKernel) {
  HostTile tile;
  tile.m1 = 6;
  const auto proxy = std::make_shared<HostArtifact>(proxy_of(tile, isa(), 96, 0));
  const std::vector<spjit::HostTuningCandidate> candidates = {{proxy, tile}, {proxy, tile, 32}};
  spjit::TuningOptions options;
  options.min_sample_us = 1;
  options.min_rounds = options.max_rounds = 2;
  options.drops = false;

  const auto results = spjit::time_host_kernels(candidates, options, {.between_bytes = 0});

  for (const spjit::TuningResult& result : results) EXPECT_EQ(result.timing.samples, 2);
}

INSTANTIATE_TEST_SUITE_P(X86, ProxyKernel,
                         testing::Combine(testing::Values(HostIsa::avx512, HostIsa::avx2),
                                          testing::ValuesIn(k_placements)),
                         isa_and_placement);

}  // namespace

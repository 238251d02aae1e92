#include "plan/proxy_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "spjit/error.hpp"
#include "tests/support/cuda/emitter_cases.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

std::int64_t entries_of(const KernelPlan& plan, std::int64_t tile) {
  const PlanSegment segment = plan.segment(tile, 0);
  return plan.entry_ptrs[index(segment.column_end)] - plan.entry_ptrs[index(segment.column_begin)];
}

std::int64_t columns_of(const KernelPlan& plan, std::int64_t tile) {
  const PlanSegment segment = plan.segment(tile, 0);
  return segment.column_end - segment.column_begin;
}

/// What every emitter relies on.
void expect_valid(const KernelPlan& plan) {
  ASSERT_EQ(plan.k_blocks, 1);
  ASSERT_EQ(plan.segments(), plan.grouping.tiles());
  ASSERT_EQ(plan.segment_ptrs.back(), std::ssize(plan.columns));
  ASSERT_EQ(plan.entry_ptrs.back(), plan.nnz());
  ASSERT_EQ(std::ssize(plan.entry_values), plan.nnz());
  for (std::int64_t tile = 0; tile < plan.grouping.tiles(); ++tile) {
    const PlanSegment segment = plan.segment(tile, 0);
    const std::int64_t rows = std::ssize(plan.tile_rows(tile));
    for (std::int64_t column = segment.column_begin; column < segment.column_end; ++column) {
      if (column > segment.column_begin) {
        ASSERT_LT(plan.columns[index(column - 1)], plan.columns[index(column)]);
      }
      ASSERT_LT(plan.columns[index(column)], plan.cols);
      const auto* const begin = plan.entry_rows.data() + plan.entry_ptrs[index(column)];
      const auto* const end = plan.entry_rows.data() + plan.entry_ptrs[index(column) + 1];
      ASSERT_LT(begin, end) << "a column without entries";
      ASSERT_TRUE(std::is_sorted(begin, end));
      ASSERT_EQ(std::adjacent_find(begin, end), end);
      ASSERT_LT(*(end - 1), rows);
    }
  }
}

TEST(ProxyPlan, OfTilesThatAreAllKeptIsAsLargeAsThePlan) {
  const KernelPlan plan = cuda_plan(random_matrix(64, 50, 0.8), 8);
  ProxyOptions options;
  options.reduce_blocks = false;
  options.reduce_iterations = false;

  const ProxyPlan proxy = build_proxy(plan, options);

  expect_valid(proxy.plan);
  EXPECT_EQ(proxy.plan.columns, plan.columns);
  EXPECT_EQ(proxy.plan.entry_rows, plan.entry_rows);
  EXPECT_EQ(proxy.plan.nnz(), plan.nnz());
}

TEST(ProxyPlan, TakesColumnsFromAllOverATileThatIsCutShort) {
  const KernelPlan plan = cuda_plan(random_matrix(8, 300, 0.5), 8);
  ProxyOptions options;
  options.iterations = 5;

  const ProxyPlan proxy = build_proxy(plan, options);

  expect_valid(proxy.plan);
  const std::int64_t columns = columns_of(proxy.plan, 0);
  ASSERT_LT(columns, 20);
  EXPECT_GE(proxy.plan.columns.back(), 300 - 2 * 300 / columns);
}

TEST(ProxyPlan, HasATileForEachClusterWithItsMeanCost) {
  const KernelPlan plan = cuda_plan(random_matrix(512, 300, 0.8), 8);
  ProxyOptions options;
  options.active_blocks = 3;
  options.reduce_iterations = false;

  const ProxyPlan proxy = build_proxy(plan, options);

  expect_valid(proxy.plan);
  ASSERT_EQ(std::ssize(proxy.clusters), 9);
  ASSERT_EQ(proxy.plan.grouping.tiles(), 9);
  for (std::int64_t i = 0; i < 9; ++i) {
    const TileCluster& cluster = proxy.clusters[index(i)];
    EXPECT_NEAR(static_cast<double>(columns_of(proxy.plan, i)), cluster.loads, 0.5);
    EXPECT_NEAR(static_cast<double>(entries_of(proxy.plan, i)), cluster.fmas, 0.5);
  }
}

TEST(ProxyPlan, CutsLongTilesAndKeepsTheirFmasALoad) {
  // Density 0.5 and 12 iterations: 24 columns of about 300.
  const KernelPlan plan = cuda_plan(random_matrix(64, 300, 0.5), 16);
  ProxyOptions options;
  options.iterations = 12;

  const ProxyPlan proxy = build_proxy(plan, options);

  expect_valid(proxy.plan);
  EXPECT_EQ(proxy.most_columns, 24);
  for (std::int64_t i = 0; i < proxy.plan.grouping.tiles(); ++i) {
    const TileCluster& cluster = proxy.clusters[index(i)];
    EXPECT_EQ(columns_of(proxy.plan, i), 24);
    EXPECT_NEAR(static_cast<double>(entries_of(proxy.plan, i)), 24 * cluster.fmas / cluster.loads,
                0.5);
  }
}

TEST(ProxyPlan, IsNeverLargerThanWhatItStandsFor) {
  for (const double sparsity : {0.3, 0.9, 0.99}) {
    for (const MatrixPattern pattern : {MatrixPattern::uniform, MatrixPattern::uneven_rows,
                                        MatrixPattern::power_law, MatrixPattern::blocks}) {
      for (const std::int64_t m1 : {1, 7, 32}) {
        GenerateOptions generate;
        generate.rows = 200;
        generate.cols = 150;
        generate.sparsity = sparsity;
        generate.pattern = pattern;
        const KernelPlan plan = cuda_plan(generate_matrix(generate), m1);
        const ProxyPlan proxy = build_proxy(plan, {.active_blocks = 2});
        SCOPED_TRACE(testing::Message() << sparsity << " " << to_string(pattern) << " m1 " << m1);

        expect_valid(proxy.plan);
        EXPECT_LE(std::ssize(proxy.clusters), 6);
        EXPECT_LE(proxy.plan.nnz(), plan.nnz());
        for (std::int64_t i = 0; i < proxy.plan.grouping.tiles(); ++i) {
          std::int64_t columns = 0;
          std::int64_t entries = 0;
          for (const std::int64_t tile : proxy.clusters[index(i)].tiles) {
            columns = std::max(columns, columns_of(plan, tile));
            entries = std::max(entries, entries_of(plan, tile));
          }
          EXPECT_LE(columns_of(proxy.plan, i), columns);
          EXPECT_LE(entries_of(proxy.plan, i), entries);
        }
      }
    }
  }
}

TEST(ProxyPlan, GivesNoTwoEntriesOneValue) {
  const ProxyPlan proxy = build_proxy(cuda_plan(random_matrix(64, 50, 0.5), 8), {});

  const std::set<float> values(proxy.plan.entry_values.begin(), proxy.plan.entry_values.end());

  EXPECT_EQ(values.size(), proxy.plan.entry_values.size());
}

TEST(ProxyPlan, OfNothingIsNothing) {
  const CsrMatrix nothing{3, 4, {0, 0, 0, 0}, {}, {}};

  const ProxyPlan proxy = build_proxy(cuda_plan(nothing, 2), {});

  EXPECT_TRUE(proxy.clusters.empty());
  EXPECT_EQ(proxy.plan.nnz(), 0);
}

TEST(ProxyPlan, RefusesOptionsBelowOneAndSeveralBlocks) {
  const KernelPlan plan = cuda_plan(small_matrix(), 2);
  const KernelPlan blocks =
      build_plan(small_matrix(), group_rows(small_matrix(), 2, ReorderAlgorithm::none), 2);

  EXPECT_THROW(static_cast<void>(build_proxy(plan, {.active_blocks = 0})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(build_proxy(plan, {.iterations = std::nan("")})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(build_proxy(blocks, {})), InvalidArgument);
}

}  // namespace

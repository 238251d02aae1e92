#include "plan/kernel_plan.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "spjit/error.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::CsrMatrix;
using spjit::KernelPlan;
using spjit::ReorderAlgorithm;
using spjit::RowGrouping;
using spjit::testing_support::index;
using spjit::testing_support::random_matrix;
using spjit::testing_support::small_matrix;

/// Rows 0 and 3 in one tile, 2 and 4 in the other.
RowGrouping small_grouping() {
  RowGrouping grouping{2, {0, 3, 2, 4}, {0, 2, 4}, {}};
  grouping.empty_rows.add(1, 2);
  return grouping;
}

TEST(KernelPlan, ListsTheColumnsOfATileWithTheRowsTheyMeet) {
  const KernelPlan plan = spjit::build_plan(small_matrix(), small_grouping(), 5);

  EXPECT_EQ(plan.rows, 5);
  EXPECT_EQ(plan.cols, 5);
  EXPECT_EQ(plan.k_blocks, 1);
  EXPECT_EQ(plan.nnz(), 7);
  EXPECT_EQ(plan.segment_ptrs, (std::vector<std::int64_t>{0, 4, 6}));
  EXPECT_EQ(plan.columns, (std::vector<std::int32_t>{0, 1, 3, 4, 1, 3}));
  EXPECT_EQ(plan.entry_ptrs, (std::vector<std::int64_t>{0, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(plan.entry_rows, (std::vector<std::int32_t>{0, 1, 1, 0, 1, 0, 1}));
  EXPECT_EQ(plan.entry_values, (std::vector<float>{1, 4, 5, 2, 6, 3, 7}));
}

TEST(KernelPlan, CutsATileIntoBlocksOfColumnsEmptyOnesIncluded) {
  const KernelPlan plan = spjit::build_plan(small_matrix(), small_grouping(), 2);

  EXPECT_EQ(plan.k_blocks, 3);
  EXPECT_EQ(plan.segments(), 6);
  EXPECT_EQ(plan.segment_ptrs, (std::vector<std::int64_t>{0, 2, 3, 4, 5, 6, 6}));
  EXPECT_EQ(plan.segment(1, 1).column_begin, 5);
  EXPECT_EQ(plan.segment(1, 1).column_end, 6);
  EXPECT_EQ(plan.segment(1, 2).column_begin, plan.segment(1, 2).column_end);
  EXPECT_EQ(plan.tile_rows(1)[0], 2);
  EXPECT_EQ(plan.tile_rows(1)[1], 4);
}

TEST(KernelPlan, ABlockLongerThanKIsOneBlock) {
  const KernelPlan plan = spjit::build_plan(small_matrix(), small_grouping(), 1000);

  EXPECT_EQ(plan.k_block, 5);
  EXPECT_EQ(plan.k_blocks, 1);
}

TEST(KernelPlan, MatricesWithoutEntriesHaveNoTiles) {
  for (const CsrMatrix& matrix :
       {CsrMatrix{0, 0, {0}, {}, {}}, CsrMatrix{0, 7, {0}, {}, {}},
        CsrMatrix{3, 0, {0, 0, 0, 0}, {}, {}}, CsrMatrix{2, 2, {0, 0, 0}, {}, {}}}) {
    const KernelPlan plan =
        spjit::build_plan(matrix, spjit::group_rows(matrix, 4, ReorderAlgorithm::none), 3);

    EXPECT_EQ(plan.segments(), 0);
    EXPECT_EQ(plan.nnz(), 0);
    EXPECT_GE(plan.k_blocks, 1);
    EXPECT_EQ(plan.grouping.empty_rows.count(), matrix.rows);
  }
}

TEST(KernelPlan, RefusesBlocksWithoutColumns) {
  EXPECT_THROW(static_cast<void>(spjit::build_plan(small_matrix(), small_grouping(), 0)),
               spjit::InvalidArgument);
}

using Entries = std::map<std::pair<std::int64_t, std::int64_t>, float>;

Entries entries_of(const CsrMatrix& matrix) {
  Entries entries;
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (auto i = matrix.row_ptrs[index(row)]; i < matrix.row_ptrs[index(row) + 1]; ++i) {
      entries[{row, matrix.col_idxs[index(i)]}] = matrix.values[index(i)];
    }
  }
  return entries;
}

/// Fails for columns out of order or out of their block, and for an entry that comes twice.
Entries entries_of(const KernelPlan& plan) {
  Entries entries;
  for (std::int64_t tile = 0; tile < plan.grouping.tiles(); ++tile) {
    for (std::int64_t block = 0; block < plan.k_blocks; ++block) {
      const spjit::PlanSegment segment = plan.segment(tile, block);
      std::int32_t last = -1;
      for (std::int64_t i = segment.column_begin; i < segment.column_end; ++i) {
        const std::int32_t column = plan.columns[index(i)];
        EXPECT_GT(column, last);
        EXPECT_EQ(column / plan.k_block, block);
        EXPECT_LT(plan.entry_ptrs[index(i)], plan.entry_ptrs[index(i) + 1]);
        last = column;
        for (auto e = plan.entry_ptrs[index(i)]; e < plan.entry_ptrs[index(i) + 1]; ++e) {
          const auto local = static_cast<std::size_t>(plan.entry_rows[index(e)]);
          const bool first =
              entries.insert({{plan.tile_rows(tile)[local], column}, plan.entry_values[index(e)]})
                  .second;
          EXPECT_TRUE(first);
        }
      }
    }
  }
  return entries;
}

TEST(KernelPlan, HoldsEveryEntryOnceInAscendingColumns) {
  for (const auto algorithm :
       {ReorderAlgorithm::none, ReorderAlgorithm::balanced, ReorderAlgorithm::similarity}) {
    for (const std::int64_t m1 : {1, 3, 28}) {
      for (const std::int64_t k_block : {1, 7, 64, 200}) {
        const CsrMatrix matrix = random_matrix(61, 97, 0.85, static_cast<std::uint64_t>(k_block));

        const KernelPlan plan =
            spjit::build_plan(matrix, spjit::group_rows(matrix, m1, algorithm), k_block);

        ASSERT_EQ(entries_of(plan), entries_of(matrix))
            << to_string(algorithm) << " m1 " << m1 << " k_block " << k_block;
      }
    }
  }
}

void expect_same(const KernelPlan& left, const KernelPlan& right, const std::string& what) {
  EXPECT_EQ(left.rows, right.rows) << what;
  EXPECT_EQ(left.cols, right.cols) << what;
  EXPECT_EQ(left.grouping.rows, right.grouping.rows) << what;
  EXPECT_EQ(left.grouping.tile_ptrs, right.grouping.tile_ptrs) << what;
  EXPECT_EQ(left.k_block, right.k_block) << what;
  EXPECT_EQ(left.k_blocks, right.k_blocks) << what;
  EXPECT_EQ(left.segment_ptrs, right.segment_ptrs) << what;
  EXPECT_EQ(left.columns, right.columns) << what;
  EXPECT_EQ(left.entry_ptrs, right.entry_ptrs) << what;
  EXPECT_EQ(left.entry_rows, right.entry_rows) << what;
  EXPECT_EQ(left.entry_values, right.entry_values) << what;
}

TEST(WithKBlock, CutsAPlanByHand) {
  const KernelPlan whole = spjit::build_plan(small_matrix(), small_grouping(), 5);

  const KernelPlan plan = spjit::with_k_block(whole, 2);

  EXPECT_EQ(plan.k_block, 2);
  EXPECT_EQ(plan.k_blocks, 3);
  EXPECT_EQ(plan.segment_ptrs, (std::vector<std::int64_t>{0, 2, 3, 4, 5, 6, 6}));
  EXPECT_EQ(plan.columns, whole.columns);
}

TEST(WithKBlock, IsWhatBuildPlanMakesOfThatBlock) {
  const CsrMatrix matrix = random_matrix(61, 97, 0.85);
  const RowGrouping grouping = spjit::group_rows(matrix, 14, ReorderAlgorithm::similarity);
  for (const std::int64_t from : {1, 7, 64, 97}) {
    for (const std::int64_t to : {1, 10, 64, 96, 97, 200}) {
      const KernelPlan plan = spjit::with_k_block(spjit::build_plan(matrix, grouping, from), to);

      expect_same(plan, spjit::build_plan(matrix, grouping, to),
                  std::to_string(from) + " to " + std::to_string(to));
    }
  }
}

TEST(WithKBlock, KeepsMatricesWithoutEntriesOrColumns) {
  for (const CsrMatrix& matrix :
       {CsrMatrix{0, 0, {0}, {}, {}}, CsrMatrix{3, 0, {0, 0, 0, 0}, {}, {}},
        CsrMatrix{2, 5, {0, 0, 0}, {}, {}}}) {
    const RowGrouping grouping = spjit::group_rows(matrix, 4, ReorderAlgorithm::none);

    const KernelPlan plan = spjit::with_k_block(spjit::build_plan(matrix, grouping, 3), 2);

    expect_same(plan, spjit::build_plan(matrix, grouping, 2), std::to_string(matrix.cols));
  }
}

TEST(WithKBlock, RefusesBlocksWithoutColumns) {
  const KernelPlan plan = spjit::build_plan(small_matrix(), small_grouping(), 5);

  EXPECT_THROW(static_cast<void>(spjit::with_k_block(plan, 0)), spjit::InvalidArgument);
}

}  // namespace

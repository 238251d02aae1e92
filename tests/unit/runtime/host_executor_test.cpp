#include "runtime/host_executor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "tests/support/spmm_testing.hpp"

namespace {

using spjit::HostProgram;
using spjit::HostSplit;
using spjit::testing_support::index;

// The executor knows nothing of sparsity, so its segments here are plain functions: a tile has one
// row and lanes are 4, and a segment adds weights[0] * B[k] for every row k of its block.
// `weights` points at: weight, row of C, rows of B in the block, first block?, last block?.
constexpr std::int64_t k_lanes = 4;
constexpr std::int64_t k_vectors = 2;

// NOLINTNEXTLINE(readability-function-size): the signature is HostSegment's
void sum_segment(const float* b, float* c, const float* weights, std::int64_t ldc_bytes,
                 float* partial, const void* masks) {
  constexpr std::int64_t k_width = k_vectors * k_lanes;
  const auto* lane_masks = static_cast<const std::uint32_t*>(masks);
  const auto row = static_cast<std::int64_t>(weights[1]);
  const auto rows_of_b = static_cast<std::int64_t>(weights[2]);
  for (std::int64_t j = 0; j < k_width; ++j) {
    float sum = weights[3] != 0 ? 0.0F : partial[j];
    for (std::int64_t k = 0; k < rows_of_b; ++k) sum += weights[0] * b[k * k_width + j];
    if (weights[4] == 0) {
      partial[j] = sum;
    } else if (lane_masks == nullptr || lane_masks[j] != 0) {
      c[row * (ldc_bytes / 4) + j] = sum;
    }
  }
}

constexpr std::int64_t k_weights_a_segment = 5;

/// Rows of C: (row + 1) * the sum of B's column; the last row is empty.
struct SumProgram {
  HostProgram program;
  std::vector<float> weights;

  SumProgram(std::int64_t rows, std::int64_t cols, std::int64_t n, std::int64_t k_block) {
    program.rows = rows;
    program.cols = cols;
    program.n = n;
    program.lanes = k_lanes;
    program.nv = k_vectors;
    program.m1 = 1;
    program.tiles = rows - 1;
    program.k_block = k_block;
    program.k_blocks = (cols + k_block - 1) / k_block;
    for (std::int64_t tile = 0; tile < program.tiles; ++tile) {
      for (std::int64_t block = 0; block < program.k_blocks; ++block) {
        const std::int64_t block_rows = std::min(k_block, cols - block * k_block);
        for (const float word : {static_cast<float>(tile + 1), static_cast<float>(tile),
                                 static_cast<float>(block_rows), block == 0 ? 1.0F : 0.0F,
                                 block + 1 == program.k_blocks ? 1.0F : 0.0F}) {
          weights.push_back(word);
        }
        program.segments.push_back(sum_segment);
        program.segment_bytes.push_back(64);
      }
      program.tile_weight_ends.push_back((tile + 1) * 10);
    }
    for (std::size_t i = 0; i < program.segments.size(); ++i) {
      program.weights.push_back(weights.data() + i * k_weights_a_segment);
    }
    program.empty_rows.add(rows - 1, rows);
  }
};

std::vector<float> whole_numbers(std::int64_t count) {
  std::vector<float> values(index(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7 % 11) - 5.0F;
  return values;
}

std::vector<float> expected_product(const HostProgram& program, const std::vector<float>& b,
                                    std::int64_t ldb, std::int64_t ldc) {
  std::vector<float> c(index(program.rows * ldc), -7.0F);
  for (std::int64_t row = 0; row < program.rows; ++row) {
    for (std::int64_t j = 0; j < program.n; ++j) {
      float sum = 0;
      for (std::int64_t k = 0; k < program.cols; ++k) sum += b[index(k * ldb + j)];
      const bool empty = row + 1 == program.rows;
      c[index(row * ldc + j)] = empty ? 0.0F : sum * static_cast<float>(row + 1);
    }
  }
  return c;
}

/// C `[rows x ldc]`. Runs on exactly the workspace that is asked for; its guards catch a float
/// more.
std::vector<float> run(const HostProgram& program, const HostSplit& split,
                       const std::vector<float>& b, std::int64_t ldc, spjit::ThreadPool* pool) {
  std::vector<float> c(index(program.rows * ldc), -7.0F);
  const std::int64_t ldb = std::ssize(b) / program.cols;
  spjit::testing_support::GuardedFloats workspace(spjit::workspace_floats(program, split));
  spjit::execute(program, split, {b.data(), ldb, c.data(), ldc}, workspace.data(), pool);
  EXPECT_TRUE(workspace.intact());
  return c;
}

TEST(HostExecutor, GivesTheProductForEveryLoopNest) {
  for (const std::int64_t n : {1, 7, 8, 9, 64, 70}) {
    for (const std::int64_t k_block : {1, 5, 20}) {
      for (const std::int64_t panel_group : {1, 2, 4, 100}) {
        for (const std::int64_t row_group : {0, 1, 3, 100}) {
          SumProgram sum(9, 20, n, k_block);
          sum.program.panel_group = panel_group;
          sum.program.row_group = row_group;
          const std::vector<float> b = whole_numbers(20 * (n + 3));

          const std::vector<float> c = run(sum.program, HostSplit{}, b, n + 2, nullptr);

          ASSERT_EQ(c, expected_product(sum.program, b, n + 3, n + 2))
              << "n " << n << " k_block " << k_block << " g " << panel_group << " r " << row_group;
        }
      }
    }
  }
}

TEST(HostExecutor, EverySplitBetweenThreadsGivesTheSame) {
  for (const std::int64_t threads : {1, 2, 3, 5}) {
    spjit::ThreadPool pool(static_cast<int>(threads));
    for (const bool by_panels : {true, false}) {
      for (const std::int64_t row_group : {0, 2}) {
        for (const std::int64_t panel_group : {1, 3}) {
          SumProgram sum(9, 20, 77, 6);
          sum.program.row_group = row_group;
          sum.program.panel_group = panel_group;
          const HostSplit split{threads, by_panels};
          const std::vector<float> b = whole_numbers(1540);
          const auto expected = expected_product(sum.program, b, 77, 77);

          EXPECT_EQ(run(sum.program, split, b, 77, &pool), expected);
          EXPECT_EQ(run(sum.program, split, b, 77, nullptr), expected);
        }
      }
    }
  }
}

TEST(HostExecutor, PanelMajorOperandsAreUsedWhereTheyAre) {
  SumProgram sum(9, 20, 21, 6);
  const spjit::PanelLayout b_layout = sum.program.b_layout();
  const spjit::PanelLayout c_layout = sum.program.c_layout();
  const std::vector<float> b = whole_numbers(420);
  std::vector<float> b_panels(index(b_layout.size()));
  for (std::int64_t row = 0; row < 20; ++row) {
    for (std::int64_t j = 0; j < 21; ++j) {
      b_panels[index(j / 8 * b_layout.stride() + row * 8 + j % 8)] = b[index(row * 21 + j)];
    }
  }
  std::vector<float> c_panels(index(c_layout.size()), -7.0F);
  std::vector<float> workspace(index(spjit::workspace_floats(sum.program, HostSplit{})));

  spjit::execute(sum.program, HostSplit{}, {b_panels.data(), 0, c_panels.data(), 0},
                 workspace.data(), nullptr);

  const std::vector<float> expected = expected_product(sum.program, b, 21, 21);
  for (std::int64_t row = 0; row < 9; ++row) {
    for (std::int64_t j = 0; j < 24; ++j) {
      const float actual = c_panels[index(j / 8 * c_layout.stride() + row * 8 + j % 8)];
      EXPECT_EQ(actual, j < 21 ? expected[index(row * 21 + j)] : 0.0F) << row << ", " << j;
    }
  }
}

TEST(HostExecutor, ARunWithoutTilesZeroesTheEmptyRows) {
  SumProgram sum(1, 20, 9, 6);
  const std::vector<float> b = whole_numbers(180);

  const std::vector<float> c = run(sum.program, HostSplit{}, b, 10, nullptr);

  EXPECT_EQ(std::count(c.begin(), c.end(), 0.0F), 9);
  EXPECT_EQ(c.back(), -7.0F);
}

TEST(ChooseSplit, OneThreadTakesAllPanels) {
  const SumProgram sum(9, 20, 64, 20);

  EXPECT_TRUE(spjit::choose_split(sum.program, 1).by_panels);
  EXPECT_EQ(spjit::choose_split(sum.program, 1).threads, 1);
}

TEST(ChooseSplit, CutsPanelsWhereTheyDivideAndTilesWhereTheyDoNot) {
  const SumProgram eight_panels(9, 20, 64, 20);
  const SumProgram one_panel(9, 20, 8, 20);
  const SumProgram one_panel_one_tile(2, 20, 8, 20);

  EXPECT_TRUE(spjit::choose_split(eight_panels.program, 4).by_panels);
  EXPECT_FALSE(spjit::choose_split(one_panel.program, 4).by_panels);
  EXPECT_TRUE(spjit::choose_split(one_panel_one_tile.program, 4).by_panels);
}

TEST(ChooseSplit, CountsPanelGroupsNotPanels) {
  SumProgram sum(9, 20, 64, 20);
  sum.program.panel_group = 8;

  EXPECT_FALSE(spjit::choose_split(sum.program, 2).by_panels);
}

}  // namespace

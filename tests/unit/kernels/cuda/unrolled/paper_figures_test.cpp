// Figures 3 and 5 of LO-SpMM (ACM TACO 2024) with their numbers. The figures' matrices are
// pictures; those here have all that the text says of them.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/arithmetic.hpp"
#include "kernels/cuda/unrolled/cuda_tile_space.hpp"
#include "kernels/cuda/unrolled/ptx_emitter.hpp"
#include "tests/support/cuda/emitter_cases.hpp"
#include "tests/support/files/text_edit.hpp"

namespace {

using spjit::CsrMatrix;
using spjit::CudaCandidate;
using spjit::CudaDeviceInfo;
using spjit::CudaRule;
using spjit::KernelPlan;
using spjit::ReorderAlgorithm;
using spjit::RowGrouping;

constexpr std::int64_t k_side = 8;  // A, B and C are 8 x 8

CsrMatrix matrix_of(const std::vector<std::vector<std::int32_t>>& rows) {
  CsrMatrix matrix;
  matrix.rows = std::ssize(rows);
  matrix.cols = k_side;
  matrix.row_ptrs = {0};
  for (const auto& columns : rows) {
    matrix.col_idxs.insert(matrix.col_idxs.end(), columns.begin(), columns.end());
    matrix.row_ptrs.push_back(std::ssize(matrix.col_idxs));
  }
  matrix.values.assign(matrix.col_idxs.size(), 1);
  return matrix;
}

/// Rows 0 to 5 have 22 nonzeros, 6 and 7 have 8; rows 0 to 3 and 4 to 7 have 15 each (section 3.4).
CsrMatrix matrix_of_figure_3() {
  return matrix_of({{1, 6},
                    {0, 2, 3, 5, 7},
                    {1, 4, 5},
                    {0, 1, 3, 6, 7},
                    {2, 3, 4, 7},
                    {0, 5, 6},
                    {1, 2, 4, 6, 7},
                    {0, 3, 5}});
}

/// 6 registers a thread, 24 a block, warps of 2 threads, 8 SMs (sections 3.2 and 3.3), and two
/// warps a block (Figure 2): with more, 18 tiles would be left where the paper has 12.
CudaDeviceInfo device_of_figure_3() {
  CudaDeviceInfo device;
  device.registers_per_thread = 6;
  device.registers_per_block = 24;
  device.register_allocation_unit = 2;
  device.sub_partitions = 1;
  device.warp_size = 2;
  device.threads_per_block = 4;
  device.sms = 8;
  return device;
}

/// A register an accumulator and no others, as the figure counts.
CudaCandidate candidate_of_figure_3(const CsrMatrix& matrix, std::int64_t m1, std::int64_t n1) {
  CudaCandidate candidate;
  candidate.tile.m1 = m1;
  candidate.tile.n1 = n1;
  candidate.registers.accumulators = m1;
  candidate.row_tiles = spjit::ceil_div(k_side, m1);
  candidate.column_tiles = spjit::ceil_div(k_side, n1);
  candidate.blocks = candidate.row_tiles * candidate.column_tiles;
  candidate.column_padding =
      static_cast<double>(candidate.column_tiles * n1 - k_side) / static_cast<double>(k_side);
  candidate.grouping =
      compute_statistics(matrix, spjit::group_rows(matrix, m1, ReorderAlgorithm::none));
  return candidate;
}

TEST(PaperFigures, Figure3Leaves38Then12Then6Of64Tiles) {
  const CsrMatrix matrix = matrix_of_figure_3();
  const CudaDeviceInfo device = device_of_figure_3();
  std::int64_t all = 0;
  std::int64_t after_registers = 0;
  std::int64_t after_hardware = 0;
  std::int64_t balanced = 0;
  std::int64_t kept = 0;

  for (std::int64_t m1 = 1; m1 <= k_side; ++m1) {
    for (std::int64_t n1 = 1; n1 <= k_side; ++n1) {
      const CudaCandidate candidate = candidate_of_figure_3(matrix, m1, n1);
      const auto dropped = broken_cuda_rule(candidate, {}, device);
      const auto is_dropped_by = [&](CudaRule rule) { return dropped && dropped->rule == rule; };
      ++all;
      if (is_dropped_by(CudaRule::registers)) continue;
      ++after_registers;
      if (is_dropped_by(CudaRule::occupancy)) continue;
      ++after_hardware;
      if (!spjit::unbalanced(candidate)) ++balanced;
      if (!dropped) ++kept;
    }
  }

  EXPECT_EQ(all, 64);
  EXPECT_EQ(after_registers, 38);
  EXPECT_EQ(after_hardware, 12);
  EXPECT_EQ(balanced, 6);
  // Tiles of one row are unbalanced; their 32 and 16 blocks for 8 SMs even that out.
  EXPECT_EQ(kept, 8);
}

TEST(PaperFigures, Figure3FindsUnbalancedWhatTheTextDoes) {
  const CsrMatrix matrix = matrix_of_figure_3();

  EXPECT_TRUE(spjit::unbalanced(candidate_of_figure_3(matrix, 6, 4)));
  EXPECT_FALSE(spjit::unbalanced(candidate_of_figure_3(matrix, 4, 4)));
  EXPECT_TRUE(spjit::unbalanced(candidate_of_figure_3(matrix, 4, 6)));
  EXPECT_EQ(candidate_of_figure_3(matrix, 6, 4).grouping.tile_nnz_max, 22);
  EXPECT_EQ(candidate_of_figure_3(matrix, 6, 4).grouping.tile_nnz_min, 8);
  EXPECT_EQ(candidate_of_figure_3(matrix, 4, 4).grouping.tile_nnz_min, 15);
}

/// Rows 0, 1, 4 and 5 have 5 columns, the others 5 of which 2 are the same: rows 0 to 3 and 4 to 7
/// have 8 non-empty columns each (section 4.1).
CsrMatrix matrix_of_figure_5() {
  const std::vector<std::int32_t> first = {0, 1, 2, 3, 4};
  const std::vector<std::int32_t> second = {3, 4, 5, 6, 7};
  return matrix_of({first, first, second, second, first, first, second, second});
}

/// Loads of B in the program's functions, one a tile.
std::int64_t loads_of_b(const CsrMatrix& matrix, ReorderAlgorithm algorithm) {
  const KernelPlan plan = build_plan(matrix, group_rows(matrix, 4, algorithm), k_side);
  spjit::CudaKernelSpec spec = spjit::testing_support::cuda_spec(4, k_side);
  std::int64_t loads = 0;
  for (const spjit::SourceUnit& unit : emit_ptx(plan, spec, 75)) {
    loads += static_cast<std::int64_t>(
        spjit::testing_support::occurrences(unit.text, "ld.global.nc.f32"));
  }
  return loads;
}

TEST(PaperFigures, Figure5Loads5RowsOfBInsteadOf8) {
  const CsrMatrix matrix = matrix_of_figure_5();
  const RowGrouping plain = group_rows(matrix, 4, ReorderAlgorithm::none);
  EXPECT_EQ(compute_statistics(matrix, plain).nnc_sum, 8 + 8);
  EXPECT_EQ(loads_of_b(matrix, ReorderAlgorithm::none), 8 + 8);

  for (const auto algorithm : {ReorderAlgorithm::balanced, ReorderAlgorithm::similarity}) {
    const RowGrouping grouping = group_rows(matrix, 4, algorithm);

    EXPECT_EQ(grouping.rows, (std::vector<std::int32_t>{0, 1, 4, 5, 2, 3, 6, 7}));
    EXPECT_EQ(compute_statistics(matrix, grouping).nnc_max, 5);
    EXPECT_EQ(loads_of_b(matrix, algorithm), 5 + 5);
  }
}

}  // namespace

#pragma once

/// @file
/// KernelPlan: the one intermediate form. Every emitter is a pure function of a plan, and so is the
/// reference evaluator.

#include <cstdint>
#include <span>
#include <vector>

#include "base/cancel.hpp"
#include "reorder/row_grouping.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// A row tile restricted to one block of columns: the unit of straight-line code.
struct PlanSegment {
  std::int64_t tile = 0;          ///< row tile
  std::int64_t k_block = 0;       ///< column block
  std::int64_t column_begin = 0;  ///< first of the segment's columns, an index into columns
  std::int64_t column_end = 0;    ///< one past its last
};

/// Which column of a row tile meets which rows with which values, in the order the kernel works.
///
/// Arithmetic, for every emitter and the evaluator alike: C[i][j] starts at +0 and takes
/// `fma(A[i][c], B[c][j], C[i][j])` for the stored entries of row i in ascending c. The result does
/// not depend on the tile: every plan of one matrix gives the same bits.
struct KernelPlan {
  std::int64_t rows = 0;  ///< m
  std::int64_t cols = 0;  ///< k
  RowGrouping grouping;
  std::int64_t k_block = 0;   ///< columns a block, >= 1
  std::int64_t k_blocks = 0;  ///< blocks that cover k, >= 1

  std::vector<std::int64_t> segment_ptrs = {0};  ///< [tiles * k_blocks + 1] offsets into columns
  std::vector<std::int32_t> columns;             ///< non-empty columns of each segment, ascending
  std::vector<std::int64_t> entry_ptrs = {0};    ///< [columns + 1] offsets into entries
  std::vector<std::int32_t> entry_rows;          ///< row within the tile, 0 .. M1 - 1
  std::vector<float> entry_values;

  [[nodiscard]] std::int64_t nnz() const noexcept {
    return static_cast<std::int64_t>(entry_rows.size());
  }
  [[nodiscard]] std::int64_t segments() const noexcept {
    return static_cast<std::int64_t>(segment_ptrs.size()) - 1;
  }
  /// Segments are ordered by tile, then by block.
  [[nodiscard]] PlanSegment segment(std::int64_t tile, std::int64_t block) const noexcept {
    const auto index = static_cast<std::size_t>(tile * k_blocks + block);
    return {tile, block, segment_ptrs[index], segment_ptrs[index + 1]};
  }
  /// The rows of A in a tile.
  [[nodiscard]] std::span<const std::int32_t> tile_rows(std::int64_t tile) const noexcept {
    const auto index = static_cast<std::size_t>(tile);
    const auto begin = static_cast<std::size_t>(grouping.tile_ptrs[index]);
    const auto end = static_cast<std::size_t>(grouping.tile_ptrs[index + 1]);
    return {grouping.rows.data() + begin, end - begin};
  }
};

/// Lays a valid matrix with sorted rows out along a grouping. `k_block` >= 1 columns a block; a
/// value of at least k means one block. Cost: linear in nnz + segments, whatever rows and cols are.
/// Throws InvalidArgument for k_block < 1, and what `cancel` throws soon after it is reached.
[[nodiscard]] KernelPlan build_plan(const CsrMatrix& matrix, RowGrouping grouping,
                                    std::int64_t k_block, const Cancellation& cancel = {});

/// The plan in other blocks of columns: what build_plan() makes of that `k_block`, and throws.
[[nodiscard]] KernelPlan with_k_block(KernelPlan plan, std::int64_t k_block,
                                      const Cancellation& cancel = {});

}  // namespace spjit

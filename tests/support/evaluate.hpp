#pragma once

/// @file
/// A slow evaluation of the plan that is right bit for bit. Every kernel is tested against it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/arithmetic.hpp"
#include "kernels/host/operands/product.hpp"
#include "kernels/host/reference/reference_family.hpp"
#include "plan/kernel_plan.hpp"

namespace spjit {

/// C = A * B by walking the plan in its order: tiles, k blocks, columns, entries. Writes the rows
/// that the plan's tiles hold and +0 to its empty rows. Kernels of this plan must give the same
/// bits.
inline void evaluate(const KernelPlan& plan, Arithmetic arithmetic, const Product& operands) {
  const AddScaledRow add_scaled_row = add_scaled_row_of(arithmetic);
  const auto c_row = [&](std::int32_t row) { return operands.c + row * operands.ldc; };
  for (const RowRange& rows : plan.grouping.empty_rows.ranges()) {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      std::fill_n(operands.c + row * operands.ldc, operands.n, 0.0F);
    }
  }
  for (std::int64_t tile = 0; tile < plan.grouping.tiles(); ++tile) {
    const std::span<const std::int32_t> rows = plan.tile_rows(tile);
    for (const std::int32_t row : rows) std::fill_n(c_row(row), operands.n, 0.0F);
    for (std::int64_t block = 0; block < plan.k_blocks; ++block) {
      const PlanSegment segment = plan.segment(tile, block);
      for (std::int64_t i = segment.column_begin; i < segment.column_end; ++i) {
        const float* b = operands.b + plan.columns[to_size(i)] * operands.ldb;
        for (std::int64_t e = plan.entry_ptrs[to_size(i)]; e < plan.entry_ptrs[to_size(i) + 1];
             ++e) {
          const std::int32_t row = rows[static_cast<std::size_t>(plan.entry_rows[to_size(e)])];
          add_scaled_row(plan.entry_values[to_size(e)], b, c_row(row), operands.n);
        }
      }
    }
  }
}

}  // namespace spjit

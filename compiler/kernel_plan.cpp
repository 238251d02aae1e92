#include "compiler/kernel_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "runtime/arithmetic.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

struct Entry {
  std::int32_t column;
  std::int32_t local_row;
  float value;
};

struct Place {
  std::int32_t tile;
  std::int32_t local_row;
};

/// Where each row of A went; rows outside the grouping keep tile -1.
std::vector<Place> places_of_rows(const CsrMatrix& matrix, const RowGrouping& grouping) {
  std::vector<Place> places(to_size(matrix.rows), Place{-1, 0});
  for (std::int64_t tile = 0; tile < grouping.tiles(); ++tile) {
    const std::int64_t begin = grouping.tile_ptrs[to_size(tile)];
    for (std::int64_t i = begin; i < grouping.tile_ptrs[to_size(tile) + 1]; ++i) {
      places[to_size(grouping.rows[to_size(i)])] = {static_cast<std::int32_t>(tile),
                                                    static_cast<std::int32_t>(i - begin)};
    }
  }
  return places;
}

/// The entries of A by column (a counting sort), so that one sweep fills every tile in ascending
/// column order.
std::vector<std::int64_t> entries_by_column(const CsrMatrix& matrix,
                                            const std::vector<std::int32_t>& row_of_entry) {
  std::vector<std::int64_t> next(to_size(matrix.cols) + 1, 0);
  for (const std::int32_t column : matrix.col_idxs) ++next[to_size(column) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<std::int64_t> order(row_of_entry.size());
  for (std::int64_t entry = 0; entry < matrix.nnz(); ++entry) {
    order[to_size(next[to_size(matrix.col_idxs[to_size(entry)])]++)] = entry;
  }
  return order;
}

std::vector<std::int32_t> rows_of_entries(const CsrMatrix& matrix) {
  std::vector<std::int32_t> rows(to_size(matrix.nnz()));
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    std::fill(rows.begin() + matrix.row_ptrs[to_size(row)],
              rows.begin() + matrix.row_ptrs[to_size(row) + 1], static_cast<std::int32_t>(row));
  }
  return rows;
}

/// Entries tile after tile, in ascending column order within each.
std::vector<Entry> entries_by_tile(const CsrMatrix& matrix, const RowGrouping& grouping,
                                   std::vector<std::int64_t>& tile_offsets,
                                   const CompileCancel& cancel) {
  const std::vector<Place> places = places_of_rows(matrix, grouping);
  const std::vector<std::int32_t> row_of_entry = rows_of_entries(matrix);
  tile_offsets.assign(to_size(grouping.tiles()) + 1, 0);
  for (const std::int32_t row : row_of_entry) {
    ++tile_offsets[to_size(places[to_size(row)].tile) + 1];
  }
  std::partial_sum(tile_offsets.begin(), tile_offsets.end(), tile_offsets.begin());

  cancel.check();
  std::vector<Entry> entries(row_of_entry.size());
  std::vector<std::int64_t> next(tile_offsets.begin(), tile_offsets.end() - 1);
  for (const std::int64_t entry : entries_by_column(matrix, row_of_entry)) {
    const Place place = places[to_size(row_of_entry[to_size(entry)])];
    entries[to_size(next[to_size(place.tile)]++)] = {
        matrix.col_idxs[to_size(entry)], place.local_row, matrix.values[to_size(entry)]};
  }
  return entries;
}

void set_blocks(KernelPlan& plan, std::int64_t k_block) {
  if (k_block < 1) {
    throw InvalidArgument(fmt::format("k_block is {}; expected at least 1 column", k_block));
  }
  plan.k_block = std::clamp<std::int64_t>(k_block, 1, std::max<std::int64_t>(plan.cols, 1));
  plan.k_blocks = std::max<std::int64_t>((plan.cols + plan.k_block - 1) / plan.k_block, 1);
}

/// Appends one tile's entries to the plan, cut into its column blocks.
void append_tile(KernelPlan& plan, std::span<const Entry> entries) {
  std::size_t next = 0;
  for (std::int64_t block = 0; block < plan.k_blocks; ++block) {
    const std::int64_t block_end = (block + 1) * plan.k_block;
    while (next < entries.size() && entries[next].column < block_end) {
      const std::int32_t column = entries[next].column;
      plan.columns.push_back(column);
      for (; next < entries.size() && entries[next].column == column; ++next) {
        plan.entry_rows.push_back(entries[next].local_row);
        plan.entry_values.push_back(entries[next].value);
      }
      plan.entry_ptrs.push_back(plan.nnz());
    }
    plan.segment_ptrs.push_back(static_cast<std::int64_t>(plan.columns.size()));
  }
}

}  // namespace

KernelPlan build_plan(const CsrMatrix& matrix, RowGrouping grouping, std::int64_t k_block,
                      const CompileCancel& cancel) {
  KernelPlan plan;
  plan.rows = matrix.rows;
  plan.cols = matrix.cols;
  set_blocks(plan, k_block);
  plan.entry_rows.reserve(to_size(matrix.nnz()));
  plan.entry_values.reserve(to_size(matrix.nnz()));

  std::vector<std::int64_t> tile_offsets;
  const std::vector<Entry> entries = entries_by_tile(matrix, grouping, tile_offsets, cancel);
  for (std::int64_t tile = 0; tile < grouping.tiles(); ++tile) {
    cancel.check();
    const auto begin = to_size(tile_offsets[to_size(tile)]);
    const auto end = to_size(tile_offsets[to_size(tile) + 1]);
    append_tile(plan, std::span(entries).subspan(begin, end - begin));
  }
  plan.grouping = std::move(grouping);
  return plan;
}

KernelPlan with_k_block(KernelPlan plan, std::int64_t k_block) {
  const std::int64_t old_blocks = plan.k_blocks;
  const std::vector<std::int64_t> old_ptrs = std::move(plan.segment_ptrs);
  set_blocks(plan, k_block);
  plan.segment_ptrs = {0};
  for (std::int64_t tile = 0; tile < plan.grouping.tiles(); ++tile) {
    std::int64_t next = old_ptrs[to_size(tile * old_blocks)];
    const std::int64_t end = old_ptrs[to_size((tile + 1) * old_blocks)];
    for (std::int64_t block = 0; block < plan.k_blocks; ++block) {
      const std::int64_t block_end = (block + 1) * plan.k_block;
      while (next < end && plan.columns[to_size(next)] < block_end) ++next;
      plan.segment_ptrs.push_back(next);
    }
  }
  return plan;
}

}  // namespace spjit

#include "plan/kernel_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/arithmetic.hpp"
#include "matrix/column_numbers.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

struct Entry {
  std::int32_t column = 0;
  std::int32_t local_row = 0;
  float value = 0;
};

struct Place {
  std::int32_t tile;
  std::int32_t local_row;
};

/// Where the rows of the grouping are, in its order.
std::vector<Place> places_of_rows(const RowGrouping& grouping, const Cancellation& cancel) {
  std::vector<Place> places;
  places.reserve(grouping.rows.size());
  CancelPace pace(cancel);
  for (std::int64_t tile = 0; tile < grouping.tiles(); ++tile) {
    const std::int64_t rows =
        grouping.tile_ptrs[to_size(tile) + 1] - grouping.tile_ptrs[to_size(tile)];
    pace.spend(rows);
    for (std::int64_t i = 0; i < rows; ++i) {
      places.push_back({static_cast<std::int32_t>(tile), static_cast<std::int32_t>(i)});
    }
  }
  return places;
}

std::int64_t row_nnz(const CsrMatrix& matrix, std::int32_t row) {
  return matrix.row_ptrs[to_size(row) + 1] - matrix.row_ptrs[to_size(row)];
}

/// Of each entry, which row of the grouping it is in, in the grouping's order.
std::vector<std::int32_t> rows_of_entries(const CsrMatrix& matrix, const RowGrouping& grouping,
                                          const Cancellation& cancel) {
  std::vector<std::int32_t> rows = filled(matrix.nnz(), std::int32_t{0}, cancel);
  CancelPace pace(cancel);
  for (std::size_t i = 0; i < grouping.rows.size(); ++i) {
    const std::int32_t row = grouping.rows[i];
    pace.spend(row_nnz(matrix, row) + 1);
    std::fill(rows.begin() + matrix.row_ptrs[to_size(row)],
              rows.begin() + matrix.row_ptrs[to_size(row) + 1], static_cast<std::int32_t>(i));
  }
  return rows;
}

/// Where the entries of each tile begin, and where the last ones end.
std::vector<std::int64_t> offsets_of_tiles(const CsrMatrix& matrix, const RowGrouping& grouping,
                                           const Cancellation& cancel) {
  std::vector<std::int64_t> offsets = {0};
  CancelPace pace(cancel);
  for (std::int64_t tile = 0; tile < grouping.tiles(); ++tile) {
    std::int64_t entries = offsets.back();
    for (std::int64_t i = grouping.tile_ptrs[to_size(tile)];
         i < grouping.tile_ptrs[to_size(tile) + 1]; ++i) {
      pace.spend(1);
      entries += row_nnz(matrix, grouping.rows[to_size(i)]);
    }
    offsets.push_back(entries);
  }
  return offsets;
}

/// The entries of A by column (a counting sort), so that one sweep fills every tile in ascending
/// column order.
std::vector<std::int64_t> entries_by_column(const CsrMatrix& matrix, const Cancellation& cancel) {
  const ColumnNumbers columns(matrix.col_idxs, matrix.cols, cancel);
  const std::span<const std::int32_t> numbers = columns.of_entries();
  std::vector<std::int64_t> next = filled(columns.count() + 1, std::int64_t{0}, cancel);
  for_each_piece(matrix.nnz(), cancel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) ++next[to_size(numbers[to_size(i)]) + 1];
  });
  std::int64_t before = 0;
  for_each_piece(std::ssize(next), cancel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) next[to_size(i)] = before += next[to_size(i)];
  });
  std::vector<std::int64_t> order = filled(matrix.nnz(), std::int64_t{0}, cancel);
  // Pointers by value: through references the compiler would load them again for each entry.
  for_each_piece(matrix.nnz(), cancel,
                 [number = numbers.data(), place = next.data(), to = order.data()](
                     std::int64_t begin, std::int64_t end) {
                   for (std::int64_t entry = begin; entry < end; ++entry) {
                     to[place[number[entry]]++] = entry;
                   }
                 });
  return order;
}

/// Entries tile after tile, in ascending column order within each.
std::vector<Entry> entries_by_tile(const CsrMatrix& matrix, const RowGrouping& grouping,
                                   const std::vector<std::int64_t>& tile_offsets,
                                   const Cancellation& cancel) {
  const std::vector<Place> places = places_of_rows(grouping, cancel);
  const std::vector<std::int32_t> row_of_entry = rows_of_entries(matrix, grouping, cancel);
  const std::vector<std::int64_t> by_column = entries_by_column(matrix, cancel);
  std::vector<Entry> entries = filled(matrix.nnz(), Entry{}, cancel);
  std::vector<std::int64_t> next(tile_offsets.begin(), tile_offsets.end() - 1);
  for_each_piece(
      matrix.nnz(), cancel,
      [order = by_column.data(), columns = matrix.col_idxs.data(), values = matrix.values.data(),
       rows = row_of_entry.data(), place_of = places.data(), free = next.data(),
       to = entries.data()](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t entry = order[i];
          const Place place = place_of[rows[entry]];
          to[free[place.tile]++] = {columns[entry], place.local_row, values[entry]};
        }
      });
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
void append_tile(KernelPlan& plan, std::span<const Entry> entries, CancelPace& pace) {
  std::size_t next = 0;
  for (std::int64_t block = 0; block < plan.k_blocks; ++block) {
    const std::int64_t block_end = (block + 1) * plan.k_block;
    pace.spend(1);
    while (next < entries.size() && entries[next].column < block_end) {
      const std::int32_t column = entries[next].column;
      pace.spend(1);
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
                      const Cancellation& cancel) {
  KernelPlan plan;
  plan.rows = matrix.rows;
  plan.cols = matrix.cols;
  set_blocks(plan, k_block);
  plan.entry_rows.reserve(to_size(matrix.nnz()));
  plan.entry_values.reserve(to_size(matrix.nnz()));

  const std::vector<std::int64_t> tile_offsets = offsets_of_tiles(matrix, grouping, cancel);
  const std::vector<Entry> entries = entries_by_tile(matrix, grouping, tile_offsets, cancel);
  CancelPace pace(cancel);
  for (std::int64_t tile = 0; tile < grouping.tiles(); ++tile) {
    const auto begin = to_size(tile_offsets[to_size(tile)]);
    const auto end = to_size(tile_offsets[to_size(tile) + 1]);
    append_tile(plan, std::span(entries).subspan(begin, end - begin), pace);
  }
  plan.grouping = std::move(grouping);
  return plan;
}

KernelPlan with_k_block(KernelPlan plan, std::int64_t k_block, const Cancellation& cancel) {
  const std::int64_t old_blocks = plan.k_blocks;
  const std::vector<std::int64_t> old_ptrs = std::move(plan.segment_ptrs);
  set_blocks(plan, k_block);
  plan.segment_ptrs = {0};
  CancelPace pace(cancel);
  for (std::int64_t tile = 0; tile < plan.grouping.tiles(); ++tile) {
    std::int64_t next = old_ptrs[to_size(tile * old_blocks)];
    const std::int64_t end = old_ptrs[to_size((tile + 1) * old_blocks)];
    for (std::int64_t block = 0; block < plan.k_blocks; ++block) {
      const std::int64_t block_end = (block + 1) * plan.k_block;
      pace.spend(1);
      while (next < end && plan.columns[to_size(next)] < block_end) ++next;
      plan.segment_ptrs.push_back(next);
    }
  }
  return plan;
}

}  // namespace spjit

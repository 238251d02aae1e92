#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "kernels/host/loops/compact_kernel.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// A without columns has none.
bool has_groups(const CsrView& matrix) { return matrix.groups.count(matrix.cols) > 0; }

}  // namespace

CompactMatrix::CompactMatrix(const CsrView& matrix, RowRange rows, CompactBlocks blocks,
                             const Cancellation& cancel)
    : block_columns_(matrix.groups.empty()
                         ? std::clamp<std::int64_t>(blocks.columns, 1, k_most_block_columns)
                         : matrix.groups.columns),
      order_(blocks.order),
      held_(takes_tokens() ? blocks.held : HeldType::f32) {
  CancelPace pace(cancel);
  const std::vector<std::vector<Lane>> lanes = lanes_by_block(matrix, rows, pace);
  const auto nnz =
      to_size(matrix.row_ptrs[to_size(rows.end)] - matrix.row_ptrs[to_size(rows.begin)]);
  offsets_.reserve(nnz);
  std::vector<Lane> sorted;
  for (std::size_t index = 0; index < lanes.size(); ++index) {
    if (lanes[index].empty()) continue;
    const std::int64_t first = static_cast<std::int64_t>(index) * block_columns_;
    Block block{.first_column = first,
                .columns = std::min(block_columns_, matrix.cols - first),
                .first_slice = slices_.size(),
                .first_row = rows_.size(),
                .first_entry = offsets_.size(),
                .first_tail = tail_offsets_.size()};
    if (blocks.sorted) {
      sort_by_length(lanes[index], block_columns_, sorted);
    } else {
      sorted = lanes[index];
    }
    for (std::size_t begin = 0; order_ == CompactOrder::slices && begin < sorted.size();
         begin += k_lanes) {
      const std::size_t taken = std::min(k_lanes, sorted.size() - begin);
      pace.spend(static_cast<std::int64_t>(k_lanes * (sorted[begin].end - sorted[begin].begin)) +
                 1);
      add_slice(matrix, first, std::span(sorted).subspan(begin, taken));
    }
    for (std::size_t i = 0; order_ == CompactOrder::rows && i < sorted.size(); ++i) {
      pace.spend(static_cast<std::int64_t>(sorted[i].end - sorted[i].begin) + 1);
      add_row(matrix, first, sorted[i]);
    }
    block.end_slice = slices_.size();
    block.end_row = rows_.size();
    blocks_.push_back(block);
    if (has_groups(matrix)) add_scales(matrix, static_cast<std::int64_t>(index));
  }
  if (matrix.has_values()) values_ = arrange(matrix.values);
}

/// The rows that have entries in each block; in the first one all rows, and in the last one where
/// groups have scales. Each entry is seen once.
std::vector<std::vector<CompactMatrix::Lane>> CompactMatrix::lanes_by_block(
    const CsrView& matrix, RowRange rows, CancelPace& pace) const {
  const std::int64_t blocks = ceil_div(std::max<std::int64_t>(matrix.cols, 1), block_columns_);
  std::vector<std::vector<Lane>> lanes(to_size(blocks));
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    auto entry = to_size(matrix.row_ptrs[to_size(row)]);
    const auto end = to_size(matrix.row_ptrs[to_size(row) + 1]);
    pace.spend(static_cast<std::int64_t>(end - entry) + 1);
    std::int64_t block = 0;
    do {
      const std::size_t begin = entry;
      const std::int64_t past = (block + 1) * block_columns_;
      std::int64_t column = past - block_columns_ - 1;
      while (entry < end && matrix.col_idxs[entry] < past) {
        if (matrix.col_idxs[entry] <= column) {
          throw Error(fmt::format("the columns of row {} of A do not ascend", row));
        }
        column = matrix.col_idxs[entry++];
      }
      if (begin < entry || block == 0) {
        // A matrix has at most 2^31 - 1 rows.
        lanes[to_size(block)].push_back({static_cast<std::int32_t>(row), begin, entry});
      }
      if (entry < end)
        block = std::max<std::int64_t>(matrix.col_idxs[entry] / block_columns_, block);
    } while (entry < end);
    if (has_groups(matrix) && block + 1 < blocks) {
      lanes.back().push_back({static_cast<std::int32_t>(row), end, end});
    }
  }
  return lanes;
}

/// Longest first, by counting; rows of one length stay in their order.
void CompactMatrix::sort_by_length(std::span<const Lane> lanes, std::int64_t longest,
                                   std::vector<Lane>& sorted) {
  std::vector<std::size_t> starts(to_size(longest) + 2, 0);
  const auto place = [&](const Lane& lane) { return to_size(longest) - (lane.end - lane.begin); };
  for (const Lane& lane : lanes) ++starts[place(lane) + 1];
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  sorted.resize(lanes.size());
  for (const Lane& lane : lanes) sorted[starts[place(lane)]++] = lane;
}

/// A column of a block. It fits 16 bits: there are at most k_most_block_columns, and of those times
/// 32 at most k_most_packed_columns.
std::uint16_t CompactMatrix::offset_of(std::int64_t column) const noexcept {
  return static_cast<std::uint16_t>(column << (takes_tokens() ? k_packed_shift : k_in_place_shift));
}

void CompactMatrix::add_row(const CsrView& matrix, std::int64_t first_column, const Lane& lane) {
  for (std::size_t entry = lane.begin; entry < lane.end; ++entry) {
    offsets_.push_back(offset_of(matrix.col_idxs[entry] - first_column));
  }
  rows_.push_back({lane.row, static_cast<std::int32_t>(lane.end - lane.begin)});
  row_entries_.push_back(static_cast<std::int64_t>(lane.begin));
}

/// Numbers of entries of a block fit 16 bits, as its columns.
void CompactMatrix::add_slice(const CsrView& matrix, std::int64_t first_column,
                              std::span<const Lane> lanes) {
  const auto offset_of_entry = [&](std::size_t entry) {
    return offset_of(matrix.col_idxs[entry] - first_column);
  };
  const std::size_t steps = lanes.back().end - lanes.back().begin;  // the last is the shortest
  Slice slice{};
  slice.steps = static_cast<std::uint16_t>(steps);
  slice.lanes = static_cast<std::uint16_t>(lanes.size());
  std::array<std::int64_t, k_lanes>& entries = entries_.emplace_back();
  const std::size_t place = offsets_.size();
  offsets_.resize(place + steps * k_lanes);
  for (std::size_t lane = 0; lane < k_lanes; ++lane) {
    const Lane& from = lanes[std::min(lane, lanes.size() - 1)];
    slice.rows[lane] = from.row;
    entries[lane] = static_cast<std::int64_t>(from.begin);
    for (std::size_t step = 0; step < steps; ++step) {
      offsets_[place + step * k_lanes + lane] = offset_of_entry(from.begin + step);
    }
    if (lane >= lanes.size()) continue;
    slice.tails[lane] = static_cast<std::uint16_t>(from.end - from.begin - steps);
    for (std::size_t entry = from.begin + steps; entry < from.end; ++entry) {
      tail_offsets_.push_back(offset_of_entry(entry));
    }
  }
  // Eight times k_most_block_columns at most.
  slice.tail_entries = static_cast<std::uint16_t>(
      std::accumulate(slice.tails.begin(), slice.tails.end(), std::size_t{0}));
  slices_.push_back(slice);
}

/// Of the last block.
void CompactMatrix::add_scales(const CsrView& matrix, std::int64_t group) {
  const auto add = [&](std::int32_t row) {
    scales_.push_back(matrix.groups.of_row(matrix.cols, row)[to_size(group)]);
  };
  const Block& block = blocks_.back();
  for (std::size_t i = block.first_slice; i < block.end_slice; ++i) {
    std::ranges::for_each(slices_[i].rows, add);
  }
  for (std::size_t i = block.first_row; i < block.end_row; ++i) add(rows_[i].row);
}

CompactMatrix::Values CompactMatrix::arrange_rows(std::span<const float> values) const {
  FloatBuffer steps(offsets_.size());
  float* to = steps.data();
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    to = std::copy_n(values.data() + row_entries_[i], rows_[i].entries, to);
  }
  return {HeldValues(held_, std::move(steps)), {}};
}

CompactMatrix::Values CompactMatrix::arrange(std::span<const float> values) const {
  if (order_ == CompactOrder::rows) return arrange_rows(values);
  FloatBuffer steps(offsets_.size());
  std::vector<float> tails;
  tails.reserve(tail_offsets_.size());
  float* to = steps.data();
  for (std::size_t index = 0; index < slices_.size(); ++index) {
    const Slice& slice = slices_[index];
    for (std::size_t lane = 0; lane < k_lanes; ++lane) {
      const float* from = values.data() + entries_[index][lane];
      for (std::size_t step = 0; step < slice.steps; ++step) to[step * k_lanes + lane] = from[step];
      from += slice.steps;
      tails.insert(tails.end(), from, from + slice.tails[lane]);
    }
    to += slice.steps * k_lanes;
  }
  return {HeldValues(held_, std::move(steps)), std::move(tails)};
}

std::int64_t CompactMatrix::bytes() const noexcept {
  const auto of_value = static_cast<std::size_t>(bytes_of(held_));
  return static_cast<std::int64_t>(slices_.size() * sizeof(Slice) + rows_.size() * sizeof(Row) +
                                   scales_.size() * sizeof(float) +
                                   offsets_.size() * (sizeof(std::uint16_t) + of_value) +
                                   tail_offsets_.size() * (sizeof(std::uint16_t) + sizeof(float)));
}

}  // namespace spjit

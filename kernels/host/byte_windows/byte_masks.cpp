#include "kernels/host/byte_windows/byte_masks.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/host_cpu.hpp"
#include "base/vector_memory.hpp"
#include "kernels/host/byte_windows/byte_mask_loops.hpp"
#include "kernels/host/operands/half_floats.hpp"
#include "plan/numerics.hpp"

namespace spjit {
namespace {

std::int64_t lanes_for(const CsrView& matrix, std::int64_t tokens) {
  if (!matrix.groups.empty()) return k_scaled_lanes;
  return tokens <= k_pass_of_many_lanes ? k_many_lanes : k_few_lanes;
}

/// The narrowest that has all scales; f16 first.
DataType narrowest_type(std::span<const float> scales) {
  for (const DataType type : {DataType::f16, DataType::bf16}) {
    if (!first_inexact(type, scales, {})) return type;
  }
  return DataType::f32;
}

}  // namespace

bool MaskedBytes::runs_here() noexcept {
  const HostCpu& cpu = host_cpu();
  return cpu.avx512_vbmi && cpu.avx512_vbmi2 && cpu.avx512_vnni &&
         __builtin_cpu_supports("popcnt") != 0;
}

MaskedBytes::MaskedBytes(const CsrView& matrix, std::int64_t tokens, const Cancellation& cancel)
    : rows_(matrix.rows),
      cols_(matrix.cols),
      lanes_(lanes_for(matrix, tokens)),
      has_nibbles_(std::ranges::all_of(matrix.values,
                                       [](float value) { return value >= -8 && value <= 7; })) {
  const std::int64_t masks = ceil_div(rows_, lanes_) * lanes_ * ceil_div(cols_, k_block);
  stream_.reserve(to_size(masks * std::int64_t{sizeof(ColumnMask)} + matrix.nnz()) + k_read_behind);
  CancelPace pace(cancel);
  for (std::int64_t row = 0; row < rows_; row += lanes_) {
    const std::int64_t end = std::min(row + lanes_, rows_);
    pace.spend(matrix.row_ptrs[to_size(end)] - matrix.row_ptrs[to_size(row)] + cols_ / k_block);
    add_group(matrix, row);
    ends_.push_back(std::ssize(stream_));
  }
  stream_.resize(stream_.size() + k_read_behind);
  stream_.shrink_to_fit();
  if (!matrix.groups.empty()) {
    add_scales(matrix);
    return;
  }
  row_sums_.assign(to_size(rows_), 0);
  for (std::int64_t row = 0; row < rows_; ++row) {
    for (std::int64_t i = matrix.row_ptrs[to_size(row)]; i < matrix.row_ptrs[to_size(row) + 1];
         ++i) {
      row_sums_[to_size(row)] += static_cast<std::int32_t>(matrix.values[to_size(i)]);
    }
  }
}

void MaskedBytes::add_group(const CsrView& matrix, std::int64_t first_row) {
  std::array<std::int64_t, k_scaled_lanes> at{};
  const std::size_t rows = to_size(std::min(lanes_, rows_ - first_row));
  for (std::size_t lane = 0; lane < rows; ++lane) {
    at[lane] = matrix.row_ptrs[to_size(first_row) + lane];
  }
  for (std::int64_t block = 0; block < cols_; block += k_block) {
    std::array<std::int64_t, k_scaled_lanes> begins = at;
    for (std::size_t lane = 0; lane < to_size(lanes_); ++lane) {
      ColumnMask mask = 0;
      if (lane < rows) {
        const std::int64_t end = matrix.row_ptrs[to_size(first_row) + lane + 1];
        for (; at[lane] < end && matrix.col_idxs[to_size(at[lane])] < block + k_block; ++at[lane]) {
          mask |= ColumnMask{1} << to_size(matrix.col_idxs[to_size(at[lane])] - block);
        }
      }
      std::array<std::uint8_t, sizeof(ColumnMask)> bytes{};
      std::memcpy(bytes.data(), &mask, sizeof(mask));
      stream_.insert(stream_.end(), bytes.begin(), bytes.end());
    }
    for (std::size_t lane = 0; lane < to_size(lanes_); lane += 2) {
      add_values(matrix, {begins[lane], at[lane]}, {begins[lane + 1], at[lane + 1]});
    }
  }
}

/// Of two rows. With scales each value has 128 added, of i4 8.
void MaskedBytes::add_values(const CsrView& matrix, const RowRange& first, const RowRange& second) {
  const std::uint8_t highest = matrix.groups.empty() ? 0 : 1;
  const auto byte_at = [&](std::int64_t i) {
    const auto value = static_cast<std::int32_t>(matrix.values[to_size(i)]);
    return static_cast<std::uint8_t>(value ^ (highest << (has_nibbles_ ? 3 : 7)));
  };
  if (!has_nibbles_) {
    for (const RowRange& row : {first, second}) {
      for (std::int64_t i = row.begin; i < row.end; ++i) stream_.push_back(byte_at(i));
    }
    return;
  }
  const std::int64_t count = std::max(first.end - first.begin, second.end - second.begin);
  for (std::int64_t i = 0; i < count; ++i) {
    const unsigned low = first.begin + i < first.end ? byte_at(first.begin + i) & 0xFU : 0;
    const unsigned high = second.begin + i < second.end ? byte_at(second.begin + i) & 0xFU : 0;
    stream_.push_back(static_cast<std::uint8_t>(high << 4U | low));
  }
}

void MaskedBytes::add_scales(const CsrView& matrix) {
  group_columns_ = matrix.groups.columns;
  column_groups_ = matrix.groups.count(cols_);
  std::vector<float> arranged;
  arranged.reserve(to_size(groups() * column_groups_ * lanes_));
  for (std::int64_t first = 0; first < rows_; first += lanes_) {
    for (std::int64_t columns = 0; columns < column_groups_; ++columns) {
      for (std::int64_t row = first; row < first + lanes_; ++row) {
        arranged.push_back(row < rows_ ? matrix.groups.of_row(cols_, row)[to_size(columns)] : 0);
      }
    }
  }
  scale_type_ = narrowest_type(arranged);
  if (scale_type_ == DataType::f32) {
    scales_.resize(arranged.size() * sizeof(float));
    std::memcpy(scales_.data(), arranged.data(), scales_.size());
    return;
  }
  std::vector<std::uint16_t> halves(arranged.size());
  round_of(scale_type_, HostIsa::generic)(arranged.data(), std::ssize(arranged), halves.data());
  scales_.resize(halves.size() * sizeof(std::uint16_t));
  std::memcpy(scales_.data(), halves.data(), scales_.size());
}

std::int64_t MaskedBytes::blocks() const noexcept {
  return groups() * lanes_ * ceil_div(cols_, k_block);
}

std::int64_t MaskedBytes::bytes() const noexcept {
  return (ends_.empty() ? 0 : ends_.back()) + std::ssize(scales_);
}

std::int64_t MaskedBytes::held_bytes() const noexcept {
  return spjit::held_bytes(stream_) + spjit::held_bytes(ends_) + spjit::held_bytes(row_sums_) +
         spjit::held_bytes(scales_);
}

std::vector<RowRange> MaskedBytes::split(std::int64_t parts) const {
  return split_evenly(groups(), std::max<std::int64_t>(parts, 1), [&](std::int64_t group) {
    return group == 0 ? 0 : ends_[to_size(group - 1)];
  });
}

void MaskedBytes::run(const RowRange& groups, const ByteOperands& operands,
                      std::int64_t token_bytes) const {
  const auto begin_of = [&](std::int64_t group) {
    return group == 0 ? 0 : ends_[to_size(group - 1)];
  };
  const std::int64_t most = has_scales()             ? k_scaled_pass
                            : lanes_ == k_many_lanes ? k_pass_of_many_lanes
                                                     : k_pass_of_few_lanes;
  for (std::int64_t group = groups.begin; group < groups.end;) {
    const std::int64_t first = begin_of(group);
    std::int64_t end = group + 1;
    while (end < groups.end && ends_[to_size(end)] - first <= k_near_bytes) ++end;
    MaskedPass pass{.stream = stream_.data() + first,
                    .groups = end - group,
                    .blocks = ceil_div(cols_, k_block),
                    .first_row = group * lanes_,
                    .rows = rows_,
                    .row_sums = row_sums_.data(),
                    .b = operands.b,
                    .distance = token_bytes,
                    .tokens = 0,
                    .zero_point = operands.zero_point,
                    .c = operands.c,
                    .row_bytes = operands.row_bytes,
                    .token_bytes = operands.token_bytes,
                    .has_floats = operands.has_floats};
    const auto scale_bytes = static_cast<std::int64_t>(scale_type_ == DataType::f32 ? 4 : 2);
    const MaskedScales scales{group_columns_, column_groups_, scale_type_,
                              scales_.data() + group * column_groups_ * lanes_ * scale_bytes};
    for (std::int64_t token = 0; token < operands.n; token += most) {
      pass.tokens = std::min(most, operands.n - token);
      pass.b = operands.b + token * token_bytes;
      pass.c = operands.c + token * operands.token_bytes;
      if (has_scales()) {
        scaled_masks_kernel(has_nibbles_, pass)(pass, scales);
      } else {
        masks_kernel(has_nibbles_, lanes_, pass.tokens)(pass);
      }
    }
    group = end;
  }
}

}  // namespace spjit

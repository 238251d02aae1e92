#include "kernels/host/byte_windows/byte_kernel.hpp"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/vector_memory.hpp"
#include "kernels/host/byte_windows/byte_loops.hpp"
#include "kernels/host/byte_windows/byte_tokens.hpp"
#include "kernels/host/byte_windows/scaled_bytes.hpp"
#include "kernels/host/operands/byte_quotients.hpp"
#include "kernels/host/operands/simd_ints.hpp"

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 says it of the registers that its own header leaves undefined (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace spjit {
namespace {

/// Tokens that are computed together: their sums are registers.
constexpr std::int64_t k_pass_tokens = 8;

/// The same where groups have scales, which take registers besides.
constexpr std::int64_t k_avx2_scaled_tokens = 4;

/// AVX2: with twice the window a step takes 1.33 times as long.
constexpr double k_cost_of_two_halves = 1.33;
/// As many steps of packed slots are as fast as one of places and values. From memory they are
/// faster: they take half as much (docs/results/host.md).
constexpr double k_gain_of_packed_slots = 1.6;

/// Where a run is, without bounds.
struct ByteStream {
  const std::uint32_t* starts;
  const std::uint8_t* places;
  const std::uint8_t* values;
};

/// Groups that follow one another.
struct ByteGroups {
  std::int64_t first_step;
  std::span<const std::int64_t> ends;
  const std::int32_t* rows;      ///< [groups x lanes]
  const std::int32_t* row_sums;  ///< the same, of A; null: 0 is stored as 0
  std::int32_t zero_point;
};

/// Operands of up to k_pass_tokens tokens.
struct BytePass {
  const std::uint8_t* b;
  std::int64_t stride;
  std::byte* c;
  std::int64_t row_bytes;
  std::int64_t token_bytes;
  bool has_floats;
};

using RunByteGroups = void (*)(const ByteStream&, const ByteGroups&, const BytePass&);

/// Rows that follow one another in C, and groups of them.
constexpr std::int64_t k_near_rows = 64;
constexpr std::int64_t k_near_lanes = 16;
constexpr std::size_t k_near_groups = k_near_rows / k_near_lanes;

/// What becomes of sums that are bytes of C.
struct BlockTarget {
  ByteFinish finish;          ///< of the first group on
  const std::uint8_t* order;  ///< [blocks x k_near_rows] place of each row among bytes of lanes
  std::int64_t rows;          ///< of the first group on
  float reciprocal;           ///< of the unit of C
  bool is_one;                ///< that unit is 1: quotients are exact
};

using RunByteBlocks = void (*)(const ByteStream&, const ByteGroups&, const BytePass&,
                               const BlockTarget&);

/// Where a run with scales of groups is, without bounds.
struct ScaledStream {
  const std::uint8_t* counts;
  const std::uint8_t* starts;
  const std::uint8_t* places;  ///< or packed slots
  const std::uint8_t* values;  ///< null where those are packed
  const float* scales;
  const std::int16_t* sums;
};

/// Groups of rows that follow one another, whose groups of columns have scales.
struct ScaledGroups {
  std::int64_t count;
  std::int64_t group_columns;
  std::int64_t column_groups;
  const std::int32_t* rows;  ///< [count x lanes]
  std::int32_t zero_point;
};

using RunScaledGroups = void (*)(const ScaledStream&, const ScaledGroups&, const BytePass&);

namespace bytes_vnni {
#define SPJIT_BYTES_TARGET SPJIT_VNNI_TARGET
#define SPJIT_BYTES_INLINE SPJIT_VNNI_INLINE

#include "kernels/host/byte_windows/byte_rows.inc"
#include "kernels/host/byte_windows/scaled_rows.inc"

#define SPJIT_QUOTIENTS_INLINE SPJIT_VNNI_INLINE
#include "kernels/host/byte_windows/byte_blocks.inc"
#undef SPJIT_QUOTIENTS_INLINE

#undef SPJIT_BYTES_TARGET
#undef SPJIT_BYTES_INLINE
}  // namespace bytes_vnni

namespace bytes_avx2 {
#define SPJIT_BYTES_TARGET SPJIT_AVX2_TARGET
#define SPJIT_BYTES_INLINE SPJIT_AVX2_INLINE

#include "kernels/host/byte_windows/byte_rows.inc"
#include "kernels/host/byte_windows/scaled_rows.inc"

#undef SPJIT_BYTES_TARGET
#undef SPJIT_BYTES_INLINE
}  // namespace bytes_avx2

RunByteGroups kernel_of(ByteForm form, std::int64_t window, ByteKind kind, std::int64_t tokens) {
  const std::size_t at = to_size(tokens - 1);
  using namespace byte_loops;
  if (form == ByteForm::vnni) return bytes_vnni::k_kernels<VnniBytes>[at];
  using bytes_avx2::k_kernels;
  if (window == k_half_window) {
    return kind == ByteKind::is_signed ? k_kernels<SignedBytes<16>>[at]
                                       : k_kernels<UnsignedBytes<16>>[at];
  }
  return kind == ByteKind::is_signed ? k_kernels<SignedBytes<32>>[at]
                                     : k_kernels<UnsignedBytes<32>>[at];
}

RunScaledGroups scaled_kernel_of(const ByteMatrix& matrix, ByteKind kind, std::int64_t tokens) {
  const std::size_t at = to_size(tokens - 1);
  using namespace byte_loops;
  const bool is_packed = matrix.slots() == ByteSlots::packed;
  if (matrix.form() == ByteForm::vnni) {
    using bytes_vnni::k_scaled_kernels;
    return is_packed ? k_scaled_kernels<VnniNibbles>[at] : k_scaled_kernels<VnniBytes>[at];
  }
  using bytes_avx2::k_scaled_kernels;
  if (is_packed) return k_scaled_kernels<Avx2Nibbles>[at];
  if (matrix.shape().window == k_half_window) {
    return kind == ByteKind::is_signed ? k_scaled_kernels<SignedBytes<16>>[at]
                                       : k_scaled_kernels<UnsignedBytes<16>>[at];
  }
  return kind == ByteKind::is_signed ? k_scaled_kernels<SignedBytes<32>>[at]
                                     : k_scaled_kernels<UnsignedBytes<32>>[at];
}

struct OrderedShape {
  ByteShape shape;
  OrderedRows ordered;
};

OrderedShape ordered_for(const CsrView& matrix, const ByteShape& shape,
                         const Cancellation& cancel) {
  return {shape, order_byte_rows(matrix, shape, cancel)};
}

/// AVX2: with the wider window where so few columns of the narrow one are entries that its steps
/// take longer.
OrderedShape apart_for(const CsrView& matrix, ByteForm form, RowsOfC rows,
                       const Cancellation& cancel) {
  if (form == ByteForm::vnni) {
    const bool are_near = rows == RowsOfC::near;
    return ordered_for(matrix, {16, 64, ByteSlots::apart, are_near ? k_near_rows : k_ordered_rows},
                       cancel);
  }
  OrderedShape narrow = ordered_for(matrix, {8, k_half_window}, cancel);
  OrderedShape wide = ordered_for(matrix, {8, 2 * k_half_window}, cancel);
  const bool is_narrow =
      as_double(narrow.ordered.steps) <= k_cost_of_two_halves * as_double(wide.ordered.steps);
  return is_narrow ? narrow : wide;
}

/// As `wanted` says if that can be; else packed where the narrow window has enough entries.
ByteSteps steps_for(const CsrView& matrix, ByteForm form, std::optional<ByteSlots> wanted,
                    RowsOfC rows, const Cancellation& cancel) {
  OrderedShape chosen = apart_for(matrix, form, rows, cancel);
  if (wanted != ByteSlots::apart && can_pack(matrix)) {
    const std::int64_t lanes = chosen.shape.lanes;
    OrderedShape packed = ordered_for(matrix, {lanes, k_half_window, ByteSlots::packed}, cancel);
    const bool is_faster =
        as_double(packed.ordered.steps) <= k_gain_of_packed_slots * as_double(chosen.ordered.steps);
    if (wanted || is_faster) chosen = std::move(packed);
  }
  return make_byte_steps(matrix, chosen.shape, chosen.ordered, cancel);
}

/// A place as the loop of AVX2 takes it.
std::uint8_t place_of_halves(std::uint8_t place) {
  return place < k_half_window ? place
                               : static_cast<std::uint8_t>(k_other_half | (place - k_half_window));
}

/// Tokens that are computed together, which are a distance apart.
struct TokensOfPass {
  const std::uint8_t* b;
  std::int64_t distance;
  std::int64_t count;
};

/// Those from `token` on, at most `most`.
TokensOfPass tokens_of_pass(const ByteOperands& operands, std::int64_t token, std::int64_t most,
                            std::int64_t token_bytes) {
  const std::int64_t count = std::min(most, operands.n - token);
  if (operands.rows == nullptr) return {operands.b + token * token_bytes, token_bytes, count};
  const ByteRows& rows = *operands.rows;
  const std::int64_t row = (rows.first + token) / rows.tokens;
  const std::int64_t column = (rows.first + token) % rows.tokens;
  return {operands.b + row * rows.row_distance + column * rows.distance, rows.distance,
          std::min(count, rows.tokens - column)};
}

ByteBuffer buffer_of(std::span<const std::uint8_t> bytes) {
  ByteBuffer buffer(std::ssize(bytes));
  std::ranges::copy(bytes, buffer.data());
  return buffer;
}

ByteValues arrange_bytes(const ByteSteps& steps, std::span<const float> values) {
  ByteValues arranged{ByteBuffer(std::ssize(steps.entries)), {}};
  arranged.row_sums.assign(steps.rows.size(), 0);
  const std::size_t slots = to_size(steps.shape.slots());
  const std::size_t lanes = to_size(steps.shape.lanes);
  std::uint8_t* to = arranged.steps.data();
  std::size_t step = 0;
  for (std::size_t group = 0; group < steps.ends.size(); ++group) {
    std::int32_t* const row_sums = arranged.row_sums.data() + group * lanes;
    for (; step < to_size(steps.ends[group]); ++step) {
      for (std::size_t slot = 0; slot < slots; ++slot) {
        const std::int64_t entry = steps.entries[step * slots + slot];
        const int value = entry < 0 ? 0 : static_cast<int>(values[to_size(entry)]);
        *to++ = static_cast<std::uint8_t>(value);
        row_sums[slot / ByteShape::k_entries] += value;
      }
    }
  }
  return arranged;
}

}  // namespace

ByteExtensions byte_extensions() noexcept {
  return {__builtin_cpu_supports("avx512vbmi") != 0, __builtin_cpu_supports("avx512vnni") != 0};
}

ByteForm byte_form(HostIsa isa, const ByteExtensions& cpu) noexcept {
  return isa == HostIsa::avx512 && cpu.vbmi && cpu.vnni ? ByteForm::vnni : ByteForm::avx2;
}

ByteMatrix::ByteMatrix(const CsrView& matrix, ByteForm form, const Cancellation& cancel,
                       std::optional<ByteSlots> slots, RowsOfC rows)
    : form_(form), cols_(matrix.cols), steps_(steps_for(matrix, form, slots, rows, cancel)) {
  if (!matrix.groups.empty()) add_scales(matrix, steps_, scaled_);
  if (shape().together == k_near_rows) order_blocks(matrix.rows);
  if (shape().held == ByteSlots::packed) {
    places_ = packed_slots(steps_, matrix.values);
    free_memory(steps_.places);
    free_memory(steps_.entries);
    return;
  }
  if (form == ByteForm::avx2) {
    for (std::uint8_t& place : steps_.places) place = place_of_halves(place);
  }
  places_ = buffer_of(steps_.places);
  free_memory(steps_.places);
  if (!matrix.has_values()) return;
  values_ = arrange_bytes(steps_, matrix.values);
  free_memory(steps_.entries);
}

void ByteMatrix::order_blocks(std::int64_t rows) {
  rows_ = rows;
  const std::int64_t blocks = ceil_div(rows, k_near_rows);
  block_order_.assign(to_size(blocks * k_near_rows), 0);
  for (std::size_t at = 0; at < steps_.rows.size(); ++at) {
    const std::int64_t row = steps_.rows[at];
    if (row < 0) continue;
    const auto lane = static_cast<std::int64_t>(at) % k_near_rows;
    // Bytes of a group push those before it down: fewer groups than a block's are the last ones.
    const std::int64_t groups_of_block = std::min<std::int64_t>(
        groups() - row / k_near_rows * std::int64_t{k_near_groups}, k_near_groups);
    const std::int64_t empty = (std::int64_t{k_near_groups} - groups_of_block) * k_near_lanes;
    block_order_[to_size(row)] = static_cast<std::uint8_t>(empty + lane);
  }
}

void ByteMatrix::in_lanes(const float* of_rows, float* of_lanes) const {
  for (std::size_t at = 0; at < steps_.rows.size(); ++at) {
    const std::int32_t row = steps_.rows[at];
    of_lanes[at] = row < 0 ? 0 : of_rows[row];
  }
}

ByteMatrix::ByteMatrix(MaskedBytes masked)
    : form_(ByteForm::vnni),
      cols_(masked.cols()),
      steps_{.shape = {masked.lanes(), MaskedBytes::k_block, ByteSlots::masked}},
      masked_(std::move(masked)) {}

ByteValues ByteMatrix::arrange(std::span<const float> values) const {
  return arrange_bytes(steps_, values);
}

std::int64_t ByteMatrix::token_bytes() const noexcept {
  constexpr std::int64_t k_line_bytes = 64;
  return (ceil_div(cols_ + shape().window, k_line_bytes) | 1) * k_line_bytes;
}

double ByteMatrix::cost(std::int64_t tokens) const noexcept {
  constexpr double k_step_ns = 5.3;
  constexpr double k_scaled_step_ns = 2.7;  // of half as many tokens
  constexpr double k_scaled_group_ns = 2;
  const double of_window = shape().window == k_half_window ? 1 : 1.45;
  if (!has_scales()) {
    return as_double(ceil_div(tokens, k_pass_tokens)) * as_double(steps()) * k_step_ns * of_window;
  }
  const double groups = as_double(this->groups()) * as_double(scaled_.column_groups);
  return as_double(ceil_div(tokens, k_avx2_scaled_tokens)) *
         (as_double(steps()) * k_scaled_step_ns * of_window + groups * k_scaled_group_ns);
}

std::vector<RowRange> ByteMatrix::split(std::int64_t parts) const {
  if (masked_) return masked_->split(parts);
  const std::int64_t together = has_blocks() ? std::int64_t{k_near_groups} : 1;
  const auto first = [&](std::int64_t part) { return std::min(part * together, groups()); };
  std::vector<RowRange> ranges = split_evenly(
      ceil_div(groups(), together), std::max<std::int64_t>(parts, 1), [&](std::int64_t part) {
        // A group without steps still writes its rows.
        return first(part) + first_step(first(part));
      });
  for (RowRange& range : ranges) range = {first(range.begin), first(range.end)};
  return ranges;
}

std::int64_t ByteMatrix::step_bytes() const noexcept {
  if (shape().held == ByteSlots::packed) return 1 + shape().slots();
  return has_scales() ? 1 + 2 * shape().slots() : shape().step_bytes();
}

std::int64_t ByteMatrix::bytes() const noexcept {
  return masked_ ? masked_->bytes() : steps() * step_bytes() + scaled_.bytes();
}

std::int64_t ByteMatrix::held_bytes() const noexcept {
  if (masked_) return masked_->held_bytes();
  const std::int64_t of_values = steps() * shape().slots();
  const std::int64_t of_places = of_values;
  const bool has_values = values_.steps.data() != nullptr;
  return steps_.held_bytes() + scaled_.bytes() + spjit::held_bytes(scaled_.starts) +
         spjit::held_bytes(block_order_) + of_places + (has_values ? of_values : 0) +
         spjit::held_bytes(values_.row_sums);
}

std::int64_t ByteMatrix::first_step(std::int64_t group) const noexcept {
  return group == 0 ? 0 : steps_.ends[to_size(group - 1)];
}

/// The end of groups whose steps stay near, of whole blocks of `together` groups.
std::int64_t ByteMatrix::end_of_near(std::int64_t group, std::int64_t last, std::int64_t step_bytes,
                                     std::int64_t together) const noexcept {
  const std::int64_t most = first_step(group) + k_near_bytes / step_bytes;
  std::int64_t end = std::min(group + together, last);
  while (end < last && first_step(std::min(end + together, last)) <= most) {
    end = std::min(end + together, last);
  }
  return end;
}

/// Rows of groups for some tokens, as many groups as stay near, before the next ones.
void ByteMatrix::run_scaled(const RowRange& groups, const ByteOperands& operands) const {
  const std::int64_t most = form_ == ByteForm::vnni ? k_pass_tokens : k_avx2_scaled_tokens;
  for (std::int64_t group = groups.begin; group < groups.end;) {
    const std::int64_t first = first_step(group);
    const std::int64_t end = end_of_near(group, groups.end, step_bytes(), 1);
    const std::int64_t at = group * scaled_.column_groups;
    const bool is_packed = shape().held == ByteSlots::packed;
    const std::int64_t slot = first * shape().slots();
    const ScaledStream from{
        scaled_.counts.data() + at,
        scaled_.starts.data() + first,
        places_.data() + slot,
        is_packed ? nullptr : values_.steps.data() + slot,
        scaled_.scales.data() + at * shape().lanes,
        scaled_.sums.data() + at * shape().lanes,
    };
    const ScaledGroups some{end - group, scaled_.group_columns, scaled_.column_groups,
                            steps_.rows.data() + group * shape().lanes, operands.zero_point};
    for (std::int64_t token = 0; token < operands.n;) {
      const TokensOfPass pass = tokens_of_pass(operands, token, most, token_bytes());
      // Sums are floats before they are stored.
      scaled_kernel_of(*this, operands.kind, pass.count)(
          from, some,
          {pass.b, pass.distance, operands.c + token * operands.token_bytes, operands.row_bytes,
           operands.token_bytes, false});
      token += pass.count;
    }
    group = end;
  }
}

void ByteMatrix::run(const RowRange& groups, const ByteOperands& operands,
                     const ByteValues& values) const {
  if (masked_) return masked_->run(groups, operands, token_bytes());
  if (has_scales()) return run_scaled(groups, operands);
  const ByteFinish* const finish = operands.finish;
  const auto together = finish == nullptr ? std::int64_t{1} : std::int64_t{k_near_groups};
  for (std::int64_t group = groups.begin; group < groups.end;) {
    const std::int64_t first = first_step(group);
    const std::int64_t end = end_of_near(group, groups.end, shape().step_bytes(), together);
    const std::int64_t at = group * shape().lanes;
    const bool has_zero_point = operands.zero_point != 0;
    const std::uint32_t* const starts =
        operands.rows == nullptr ? steps_.starts.data() : operands.rows->starts;
    const ByteStream from{starts + first, places_.data() + first * shape().slots(),
                          values.steps.data() + first * shape().slots()};
    const ByteGroups some{
        first, std::span(steps_.ends).subspan(to_size(group), to_size(end - group)),
        steps_.rows.data() + at, has_zero_point ? values.row_sums.data() + at : nullptr,
        operands.zero_point};
    for (std::int64_t token = 0; token < operands.n;) {
      const TokensOfPass tokens = tokens_of_pass(operands, token, k_pass_tokens, token_bytes());
      const BytePass pass{tokens.b,
                          tokens.distance,
                          operands.c + token * operands.token_bytes + (finish == nullptr ? 0 : at),
                          operands.row_bytes,
                          operands.token_bytes,
                          operands.has_floats};
      if (finish != nullptr) {
        bytes_vnni::k_block_kernels<byte_loops::VnniBytes>[to_size(tokens.count - 1)](
            from, some, pass,
            {finish->from(at), block_order_.data() + at, rows_ - at,
             reciprocal_of(finish->unit.scale), finish->unit.scale == 1});
      } else {
        kernel_of(form_, shape().window, operands.kind, tokens.count)(from, some, pass);
      }
      token += tokens.count;
    }
    group = end;
  }
}

}  // namespace spjit

#include "kernels/host/byte_windows/byte_kernel.hpp"

#include <algorithm>
#include <utility>

#include "base/vector_memory.hpp"
#include "kernels/host/byte_windows/byte_passes.hpp"
#include "kernels/host/byte_windows/scaled_bytes.hpp"
#include "kernels/host/operands/byte_quotients.hpp"

namespace spjit {
namespace {

constexpr auto k_tokens_of_pass = static_cast<std::int64_t>(k_pass_tokens);
/// Those of eight lanes where groups have scales, which take registers besides.
constexpr std::int64_t k_few_scaled_tokens = 4;

/// As many steps of packed slots are as fast as one of places and values. From memory they are
/// faster: they take half as much (docs/results/host.md).
constexpr double k_gain_of_packed_slots = 1.6;

struct OrderedShape {
  ByteShape shape;
  OrderedRows ordered;
};

OrderedShape ordered_for(const CsrView& matrix, const ByteShape& shape,
                         const Cancellation& cancel) {
  return {shape, order_byte_rows(matrix, shape, cancel)};
}

/// How much longer a step takes with the form's wider window (docs/results/host.md).
double cost_of_wide_window(ByteForm form, std::int64_t tokens) {
  constexpr std::int64_t k_few = 2;
  constexpr std::int64_t k_some = 5;
  if (permutes_bytes(form)) return tokens <= k_few ? 1.12 : tokens <= k_some ? 1.25 : 1.4;
  if (adds_products(form)) return tokens <= k_few ? 1.28 : tokens <= k_some ? 1.45 : 1.75;
  return 1.33;
}

/// How long k_pass_tokens take in a step of the narrow window.
double narrow_step_ns(ByteForm form) {
  switch (form) {
    case ByteForm::avx2:
      break;
    case ByteForm::avx_vnni:
      return 2.9;
    case ByteForm::avx512:
      return 8.5;
    case ByteForm::vnni:
    case ByteForm::vbmi:
      return 4.2;
  }
  return 5.3;
}

/// With the wider window where so few columns of the narrow one are entries that its steps take
/// longer.
OrderedShape apart_for(const CsrView& matrix, ByteForm form, const ByteWishes& wishes,
                       const Cancellation& cancel) {
  const std::int64_t lanes = has_eight_lanes(form) ? 8 : 16;
  if (wishes.rows == RowsOfC::near && permutes_bytes(form)) {
    return ordered_for(matrix, {lanes, k_whole_window, ByteSlots::apart, k_near_rows}, cancel);
  }
  if (wishes.window) return ordered_for(matrix, {lanes, *wishes.window}, cancel);
  const std::int64_t widest = permutes_bytes(form) ? k_whole_window : 2 * k_half_window;
  OrderedShape narrow = ordered_for(matrix, {lanes, k_half_window}, cancel);
  OrderedShape wide = ordered_for(matrix, {lanes, widest}, cancel);
  const bool is_narrow = as_double(narrow.ordered.steps) <=
                         cost_of_wide_window(form, wishes.tokens) * as_double(wide.ordered.steps);
  return is_narrow ? narrow : wide;
}

/// As `wishes` say if that can be; else packed where the narrow window has enough entries.
ByteSteps steps_for(const CsrView& matrix, ByteForm form, const ByteWishes& wishes,
                    const Cancellation& cancel) {
  OrderedShape chosen = apart_for(matrix, form, wishes, cancel);
  if (wishes.slots != ByteSlots::apart && can_pack(matrix)) {
    const std::int64_t lanes = chosen.shape.lanes;
    OrderedShape packed = ordered_for(matrix, {lanes, k_half_window, ByteSlots::packed}, cancel);
    const bool is_faster =
        as_double(packed.ordered.steps) <= k_gain_of_packed_slots * as_double(chosen.ordered.steps);
    if (wishes.slots || is_faster) chosen = std::move(packed);
  }
  return make_byte_steps(matrix, chosen.shape, chosen.ordered, cancel);
}

/// A place as loops take it whose windows have halves.
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

ByteMatrix::ByteMatrix(const CsrView& matrix, ByteForm form, const Cancellation& cancel,
                       const ByteWishes& wishes)
    : form_(form), cols_(matrix.cols), steps_(steps_for(matrix, form, wishes, cancel)) {
  if (!matrix.groups.empty()) add_scales(matrix, steps_, scaled_);
  if (shape().together == k_near_rows) order_blocks(matrix.rows);
  if (shape().held == ByteSlots::packed) {
    places_ = packed_slots(steps_, matrix.values);
    free_memory(steps_.places);
    free_memory(steps_.entries);
    return;
  }
  if (shape().window != k_whole_window) {
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
    : form_(ByteForm::vbmi),
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
  constexpr double k_scaled_group_ns = 2;
  double of_window = adds_products(form_) ? 1.75 : 1.45;
  if (shape().window == k_half_window) of_window = 1;
  const std::int64_t most = tokens_with_scales();
  const double of_tokens = has_scales() ? as_double(most) / as_double(k_tokens_of_pass) : 1;
  const double steps_ns = as_double(steps()) * narrow_step_ns(form_) * of_window * of_tokens;
  if (!has_scales()) return as_double(ceil_div(tokens, k_tokens_of_pass)) * steps_ns;
  const double groups = as_double(this->groups()) * as_double(scaled_.column_groups);
  return as_double(ceil_div(tokens, most)) * (steps_ns + groups * k_scaled_group_ns);
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

/// Tokens that are computed together where groups have scales, which take registers besides.
std::int64_t ByteMatrix::tokens_with_scales() const noexcept {
  return has_eight_lanes(form_) ? k_few_scaled_tokens : k_tokens_of_pass;
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
  const ByteLoop& loop = byte_loop_of(form_, shape(), operands.kind);
  const std::int64_t most = tokens_with_scales();
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
      loop.scaled[to_size(pass.count - 1)](
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
  const ByteLoop& loop = byte_loop_of(form_, shape(), operands.kind);
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
      const TokensOfPass tokens = tokens_of_pass(operands, token, k_tokens_of_pass, token_bytes());
      const BytePass pass{tokens.b,
                          tokens.distance,
                          operands.c + token * operands.token_bytes + (finish == nullptr ? 0 : at),
                          operands.row_bytes,
                          operands.token_bytes,
                          operands.has_floats};
      if (finish != nullptr) {
        block_loop_of(to_size(tokens.count))(
            from, some, pass,
            {finish->from(at), block_order_.data() + at, rows_ - at,
             reciprocal_of(finish->unit.scale), finish->unit.scale == 1});
      } else {
        loop.groups[to_size(tokens.count - 1)](from, some, pass);
      }
      token += tokens.count;
    }
    group = end;
  }
}

}  // namespace spjit

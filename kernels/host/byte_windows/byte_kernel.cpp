#include "kernels/host/byte_windows/byte_kernel.hpp"

#include <algorithm>
#include <utility>

#include "base/vector_memory.hpp"
#include "kernels/host/byte_windows/byte_passes.hpp"
#include "kernels/host/byte_windows/scaled_bytes.hpp"

namespace spjit {
namespace {

constexpr auto k_most_tokens = static_cast<std::int64_t>(k_pass_tokens);
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
  double of_window = adds_products(form_) ? 1.75 : 1.45;
  if (shape().window == k_half_window) of_window = 1;
  return as_double(ceil_div(tokens, k_most_tokens)) * as_double(steps()) * narrow_step_ns(form_) *
         of_window;
}

std::vector<RowRange> ByteMatrix::split(std::int64_t parts) const {
  if (masked_) return masked_->split(parts);
  return split_evenly(groups(), std::max<std::int64_t>(parts, 1), [&](std::int64_t group) {
    // A group without steps still writes its rows.
    return group + (group == 0 ? 0 : steps_.ends[to_size(group - 1)]);
  });
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
  return steps_.held_bytes() + scaled_.bytes() + spjit::held_bytes(scaled_.starts) + of_places +
         (has_values ? of_values : 0) + spjit::held_bytes(values_.row_sums);
}

/// Rows of groups for some tokens, as many groups as stay near, before the next ones.
void ByteMatrix::run_scaled(const RowRange& groups, const ByteOperands& operands) const {
  const auto step_before = [&](std::int64_t group) {
    return group == 0 ? 0 : steps_.ends[to_size(group - 1)];
  };
  const ByteLoop& loop = byte_loop_of(form_, shape(), operands.kind);
  const std::int64_t near_steps = k_near_bytes / step_bytes();
  const std::int64_t most = has_eight_lanes(form_) ? k_few_scaled_tokens : k_most_tokens;
  for (std::int64_t group = groups.begin; group < groups.end;) {
    const std::int64_t first = step_before(group);
    std::int64_t end = group + 1;
    while (end < groups.end && step_before(end + 1) - first <= near_steps) ++end;
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
  const auto step_before = [&](std::int64_t group) {
    return group == 0 ? 0 : steps_.ends[to_size(group - 1)];
  };
  const ByteLoop& loop = byte_loop_of(form_, shape(), operands.kind);
  const std::int64_t near_steps = k_near_bytes / shape().step_bytes();
  for (std::int64_t group = groups.begin; group < groups.end;) {
    const std::int64_t first = step_before(group);
    std::int64_t end = group + 1;
    while (end < groups.end && step_before(end + 1) - first <= near_steps) ++end;
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
      const TokensOfPass pass = tokens_of_pass(operands, token, k_most_tokens, token_bytes());
      loop.groups[to_size(pass.count - 1)](
          from, some,
          {pass.b, pass.distance, operands.c + token * operands.token_bytes, operands.row_bytes,
           operands.token_bytes, operands.has_floats});
      token += pass.count;
    }
    group = end;
  }
}

}  // namespace spjit

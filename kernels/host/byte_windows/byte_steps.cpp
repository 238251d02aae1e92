#include "kernels/host/byte_windows/byte_steps.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "base/arithmetic.hpp"
#include "kernels/host/operands/row_order.hpp"

namespace spjit {
namespace {

constexpr std::size_t k_most_byte_lanes = 16;

/// The entries of a group's rows, step by step.
class ByteCursor {
 public:
  ByteCursor(const CsrView& matrix, const ByteShape& shape, std::span<const std::int32_t> rows)
      : matrix_(matrix), shape_(shape) {
    columns_.fill(k_none);
    for (std::size_t lane = 0; lane < rows.size(); ++lane) {
      next_[lane] = matrix.row_ptrs[to_size(rows[lane])];
      ends_[lane] = matrix.row_ptrs[to_size(rows[lane]) + 1];
      read_column(lane);
    }
  }

  /// Calls `on_entry(slot, entry, place)` for each entry of the next step, whose window begins with
  /// `start` then. False if there is none left.
  template <class OnEntry>
  bool step(std::int64_t& start, const OnEntry& on_entry) {
    start = *std::ranges::min_element(columns_);
    if (start == k_none) return false;
    for (std::size_t lane = 0; lane < to_size(shape_.lanes); ++lane) {
      for (std::size_t i = 0; i < ByteShape::k_entries; ++i) {
        if (columns_[lane] >= start + shape_.window) break;
        on_entry(lane * ByteShape::k_entries + i, next_[lane],
                 static_cast<std::uint8_t>(columns_[lane] - start));
        ++next_[lane];
        read_column(lane);
      }
    }
    return true;
  }

 private:
  // A window that begins there ends below 2^63.
  static constexpr std::int64_t k_none = std::numeric_limits<std::int64_t>::max() / 2;

  void read_column(std::size_t lane) {
    columns_[lane] = next_[lane] < ends_[lane] ? matrix_.col_idxs[to_size(next_[lane])] : k_none;
  }

  const CsrView& matrix_;
  const ByteShape& shape_;
  std::array<std::int64_t, k_most_byte_lanes> next_{};
  std::array<std::int64_t, k_most_byte_lanes> ends_{};
  std::array<std::int64_t, k_most_byte_lanes> columns_{};  ///< of next_, or k_none
};

std::int64_t byte_steps_of(const CsrView& matrix, const ByteShape& shape,
                           std::span<const std::int32_t> rows) {
  std::int64_t steps = 0;
  for_each_group(rows, shape.lanes, [&](std::span<const std::int32_t> of_group) {
    std::int64_t start = 0;
    ByteCursor cursor(matrix, shape, of_group);
    while (cursor.step(start, [](std::size_t, std::int64_t, std::uint8_t) {})) ++steps;
  });
  return steps;
}

OrderedRows ordered_byte_rows(const CsrView& matrix, const ByteShape& shape,
                              const Cancellation& cancel) {
  return order_rows(
      matrix, shape.lanes,
      [&](std::span<const std::int32_t> rows) { return byte_steps_of(matrix, shape, rows); },
      cancel);
}

void append_group(ByteSteps& steps, const CsrView& matrix, std::span<const std::int32_t> rows) {
  const std::size_t slots = to_size(steps.shape.slots());
  ByteCursor cursor(matrix, steps.shape, rows);
  std::int64_t start = 0;
  const auto on_entry = [&](std::size_t slot, std::int64_t entry, std::uint8_t place) {
    const std::size_t at = steps.starts.size() * slots + slot;
    steps.places[at] = place;
    steps.entries[at] = entry;
  };
  for (;;) {
    steps.places.resize(to_size(steps.steps() + 1) * slots, 0);
    steps.entries.resize(steps.places.size(), ByteSteps::k_no_entry);
    if (!cursor.step(start, on_entry)) break;
    steps.starts.push_back(static_cast<std::uint16_t>(start));
  }
  steps.places.resize(steps.starts.size() * slots);
  steps.entries.resize(steps.places.size());
  steps.ends.push_back(steps.steps());
  steps.rows.insert(steps.rows.end(), rows.begin(), rows.end());
  steps.rows.resize(to_size(steps.groups() * steps.shape.lanes), -1);
}

}  // namespace

ByteSteps make_byte_steps(const CsrView& matrix, const ByteShape& shape,
                          const Cancellation& cancel) {
  ByteSteps steps{
      .shape = shape, .ends = {}, .rows = {}, .starts = {}, .places = {}, .entries = {}};
  const OrderedRows ordered = ordered_byte_rows(matrix, shape, cancel);
  steps.starts.reserve(to_size(ordered.steps));
  steps.places.reserve(to_size((ordered.steps + 1) * shape.slots()));
  steps.entries.reserve(to_size((ordered.steps + 1) * shape.slots()));
  CancelPace pace(cancel);
  for_each_group(ordered.rows, shape.lanes, [&](std::span<const std::int32_t> rows) {
    const std::int64_t before = steps.steps();
    append_group(steps, matrix, rows);
    pace.spend((steps.steps() - before) * shape.slots());
  });
  return steps;
}

std::int64_t count_byte_steps(const CsrView& matrix, const ByteShape& shape,
                              const Cancellation& cancel) {
  return ordered_byte_rows(matrix, shape, cancel).steps;
}

}  // namespace spjit

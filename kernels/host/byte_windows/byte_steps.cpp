#include "kernels/host/byte_windows/byte_steps.hpp"

#include <algorithm>
#include <span>

#include "base/arithmetic.hpp"
#include "base/vector_memory.hpp"
#include "kernels/host/operands/row_cursor.hpp"

namespace spjit {
namespace {

/// The entries of a group's rows, step by step.
class ByteCursor {
 public:
  ByteCursor(const CsrView& matrix, const ByteShape& shape, std::span<const std::int32_t> rows)
      : shape_(shape),
        group_columns_(matrix.groups.empty() ? k_one_group : matrix.groups.columns),
        rows_(matrix, rows) {}

  /// Calls `on_entry(slot, entry, place)` for each entry of the next step, whose window begins with
  /// `start` then. False if there is none left.
  template <class OnEntry>
  bool step(std::int64_t& start, const OnEntry& on_entry) {
    start = rows_.least_column();
    if (start == RowCursor::k_none) return false;
    const std::int64_t group_end = (start / group_columns_ + 1) * group_columns_;
    const std::int64_t end = std::min(start + shape_.window, group_end);
    for (std::size_t lane = 0; lane < to_size(shape_.lanes); ++lane) {
      for (std::size_t i = 0; i < ByteShape::k_entries; ++i) {
        const std::int64_t column = rows_.column(lane);
        if (column >= end) break;
        on_entry(lane * ByteShape::k_entries + i, rows_.take(lane),
                 static_cast<std::uint8_t>(column - start));
      }
    }
    return true;
  }

 private:
  static constexpr std::int64_t k_one_group = std::int64_t{1} << 48;

  const ByteShape& shape_;
  std::int64_t group_columns_;
  RowCursor rows_;
};

void append_group(ByteSteps& steps, const CsrView& matrix, std::span<const std::int32_t> rows) {
  const std::size_t slots = to_size(steps.shape.slots());
  ByteCursor cursor(matrix, steps.shape, rows);
  std::int64_t start = 0;
  const std::int64_t column_groups = matrix.groups.count(matrix.cols);
  const std::size_t first = steps.of_columns.size();
  steps.of_columns.resize(first + to_size(column_groups), 0);
  const auto on_entry = [&](std::size_t slot, std::int64_t entry, std::uint8_t place) {
    const std::size_t at = steps.starts.size() * slots + slot;
    steps.places[at] = place;
    steps.entries[at] = entry;
  };
  for (;;) {
    steps.places.resize(to_size(steps.steps() + 1) * slots, 0);
    steps.entries.resize(steps.places.size(), ByteSteps::k_no_entry);
    if (!cursor.step(start, on_entry)) break;
    steps.starts.push_back(static_cast<std::uint32_t>(start));  // columns are 31 bits
    // A step begins behind the one before it: at most as many as a group has columns.
    if (column_groups > 0) ++steps.of_columns[first + to_size(start / matrix.groups.columns)];
  }
  steps.places.resize(steps.starts.size() * slots);
  steps.entries.resize(steps.places.size());
  steps.ends.push_back(steps.steps());
  steps.rows.insert(steps.rows.end(), rows.begin(), rows.end());
  steps.rows.resize(to_size(steps.groups() * steps.shape.lanes), -1);
}

}  // namespace

OrderedRows order_byte_rows(const CsrView& matrix, const ByteShape& shape,
                            const Cancellation& cancel) {
  return order_rows_of<ByteCursor>(matrix, shape, cancel, shape.together);
}

ByteSteps make_byte_steps(const CsrView& matrix, const ByteShape& shape, const OrderedRows& ordered,
                          const Cancellation& cancel) {
  ByteSteps steps{.shape = shape,
                  .ends = {},
                  .rows = {},
                  .starts = {},
                  .places = {},
                  .entries = {},
                  .of_columns = {}};
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

std::int64_t ByteSteps::held_bytes() const noexcept {
  return spjit::held_bytes(ends) + spjit::held_bytes(rows) + spjit::held_bytes(starts) +
         spjit::held_bytes(places) + spjit::held_bytes(entries) + spjit::held_bytes(of_columns);
}

}  // namespace spjit

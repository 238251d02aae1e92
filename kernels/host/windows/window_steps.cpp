#include "kernels/host/windows/window_steps.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/vector_memory.hpp"
#include "kernels/host/operands/row_cursor.hpp"

namespace spjit {
namespace {

/// The entries of a group's rows, step by step.
class GroupCursor {
 public:
  GroupCursor(const CsrView& matrix, const WindowShape& shape, std::span<const std::int32_t> rows)
      : shape_(shape),
        group_columns_(matrix.groups.empty() ? k_one_group : matrix.groups.columns),
        last_start_((shape.column_floats(matrix.cols) - shape.window) / shape.align * shape.align),
        rows_(matrix, rows) {}

  /// Calls `on_entry(lane, entry, place)` for each entry of the next step, whose window is `start`
  /// then. False if there is none left.
  template <class OnEntry>
  bool step(std::int64_t& start, const OnEntry& on_entry) {
    const std::int64_t first = rows_.least_column();
    if (first == RowCursor::k_none) return false;
    start = std::min(first / shape_.align * shape_.align, last_start_);
    column_group_ = first / group_columns_;
    const std::int64_t end = std::min(start + shape_.window, (column_group_ + 1) * group_columns_);
    for (std::size_t lane = 0; lane < to_size(shape_.lanes); ++lane) {
      const std::int64_t column = rows_.column(lane);
      if (column >= end) continue;
      on_entry(lane, rows_.take(lane), static_cast<std::uint8_t>(column - start));
    }
    return true;
  }

  /// The group of columns that the last step was of.
  [[nodiscard]] std::int64_t column_group() const noexcept { return column_group_; }

 private:
  static constexpr std::int64_t k_one_group = std::int64_t{1} << 48;

  const WindowShape& shape_;
  std::int64_t group_columns_;
  std::int64_t column_group_ = 0;
  std::int64_t last_start_;
  RowCursor rows_;
};

OrderedRows ordered_rows(const CsrView& matrix, const WindowShape& shape,
                         const Cancellation& cancel) {
  return order_rows_of<GroupCursor>(matrix, shape, cancel);
}

/// The steps of one group.
struct Group {
  std::vector<std::uint16_t> starts;
  std::vector<std::uint8_t> places;
  std::vector<std::int64_t> entries;
  std::vector<std::uint16_t> steps_of_columns;  ///< of each group that has scales
};

Group group_of(const CsrView& matrix, const WindowShape& shape,
               std::span<const std::int32_t> rows) {
  Group group;
  GroupCursor cursor(matrix, shape, rows);
  std::array<std::uint8_t, RowCursor::k_most_lanes> places{};
  std::array<std::int64_t, RowCursor::k_most_lanes> entries{};
  places.fill(WindowSteps::k_no_place);
  entries.fill(WindowSteps::k_no_entry);
  std::int64_t start = 0;
  group.steps_of_columns.resize(to_size(matrix.groups.count(matrix.cols)));
  while (cursor.step(start, [&](std::size_t lane, std::int64_t entry, std::uint8_t place) {
    places[lane] = place;
    entries[lane] = entry;
  })) {
    // At most as many as the group has columns.
    if (!group.steps_of_columns.empty()) ++group.steps_of_columns[to_size(cursor.column_group())];
    group.starts.push_back(static_cast<std::uint16_t>(start / shape.align));
    group.places.insert(group.places.end(), places.begin(), places.begin() + shape.lanes);
    group.entries.insert(group.entries.end(), entries.begin(), entries.begin() + shape.lanes);
    places.fill(WindowSteps::k_no_place);
    entries.fill(WindowSteps::k_no_entry);
  }
  return group;
}

/// Appends pairs of groups to steps.
class StepWriter {
 public:
  explicit StepWriter(WindowSteps& steps) : steps_(steps), lanes_(to_size(steps.shape.lanes)) {}

  /// The longer one first.
  void write(const Group& first, std::span<const std::int32_t> rows_of_first, const Group& second,
             std::span<const std::int32_t> rows_of_second) {
    const std::size_t both = second.starts.size();
    const std::size_t all = first.starts.size();
    steps_.pairs.push_back(
        {steps_.steps(), checked_cast<std::int32_t>(std::ssize(second.starts), "steps of a group"),
         checked_cast<std::int32_t>(std::ssize(first.starts), "steps of a group") -
             static_cast<std::int32_t>(both)});
    if (first.steps_of_columns.empty()) {
      write_steps(first, {0, all}, second, {0, both});
    } else {
      write_scaled(first, second);
    }
    write_rows(rows_of_first);
    write_rows(rows_of_second);
  }

 private:
  struct Steps {
    std::size_t begin;
    std::size_t count;
  };

  void write_steps(const Group& first, Steps of_first, const Group& second, Steps of_second) {
    for (std::size_t step = 0; step < std::max(of_first.count, of_second.count); ++step) {
      if (step < of_first.count) write_step(first, of_first.begin + step);
      if (step < of_second.count) write_step(second, of_second.begin + step);
    }
  }

  void write_scaled(const Group& first, const Group& second) {
    Steps of_first{0, 0};
    Steps of_second{0, 0};
    for (std::size_t i = 0; i < first.steps_of_columns.size(); ++i) {
      of_first = {of_first.begin + of_first.count, first.steps_of_columns[i]};
      of_second = {of_second.begin + of_second.count, second.steps_of_columns[i]};
      const std::uint16_t both = std::min(first.steps_of_columns[i], second.steps_of_columns[i]);
      steps_.scaled.push_back({both, static_cast<std::uint16_t>(of_first.count - both),
                               static_cast<std::uint16_t>(of_second.count - both)});
      write_steps(first, of_first, second, of_second);
    }
  }

  void write_step(const Group& group, std::size_t step) {
    const auto first = static_cast<std::ptrdiff_t>(step * lanes_);
    const auto end = static_cast<std::ptrdiff_t>((step + 1) * lanes_);
    steps_.starts.push_back(group.starts[step]);
    steps_.places.insert(steps_.places.end(), group.places.begin() + first,
                         group.places.begin() + end);
    steps_.entries.insert(steps_.entries.end(), group.entries.begin() + first,
                          group.entries.begin() + end);
  }

  void write_rows(std::span<const std::int32_t> rows) {
    steps_.rows.insert(steps_.rows.end(), rows.begin(), rows.end());
    steps_.rows.resize(steps_.rows.size() + lanes_ - rows.size(), -1);
  }

  WindowSteps& steps_;
  std::size_t lanes_;
};

}  // namespace

WindowSteps make_window_steps(const CsrView& matrix, const WindowShape& shape,
                              const Cancellation& cancel) {
  WindowSteps steps{.shape = shape,
                    .pairs = {},
                    .rows = {},
                    .starts = {},
                    .places = {},
                    .entries = {},
                    .scaled = {}};
  StepWriter writer(steps);
  CancelPace pace(cancel);
  const OrderedRows ordered = ordered_rows(matrix, shape, cancel);
  for_each_group(ordered.rows, 2 * shape.lanes, [&](std::span<const std::int32_t> of_pair) {
    std::span<const std::int32_t> first =
        of_pair.first(std::min(of_pair.size(), to_size(shape.lanes)));
    std::span<const std::int32_t> second = of_pair.subspan(first.size());
    Group of_first = group_of(matrix, shape, first);
    Group of_second = group_of(matrix, shape, second);
    pace.spend((std::ssize(of_first.starts) + std::ssize(of_second.starts)) * shape.lanes);
    if (of_first.starts.size() < of_second.starts.size()) {
      std::swap(first, second);
      std::swap(of_first, of_second);
    }
    writer.write(of_first, first, of_second, second);
  });
  steps.starts.shrink_to_fit();
  steps.places.shrink_to_fit();
  steps.scaled.shrink_to_fit();
  return steps;
}

std::int64_t WindowSteps::held_bytes() const noexcept {
  return spjit::held_bytes(pairs) + spjit::held_bytes(rows) + spjit::held_bytes(starts) +
         spjit::held_bytes(places) + spjit::held_bytes(entries) + spjit::held_bytes(scaled);
}

std::int64_t window_bytes(const CsrView& matrix, const WindowShape& shape,
                          const Cancellation& cancel) {
  return ordered_rows(matrix, shape, cancel).steps * shape.step_bytes();
}

}  // namespace spjit

#include "kernels/host/operands/typed_rows.hpp"

#include <algorithm>
#include <array>

#include "base/arithmetic.hpp"
#include "kernels/host/operands/byte_elements.hpp"

namespace spjit {
namespace {

/// Elements that are floats at once: those of a part of B or C, which stay in L1 meanwhile.
constexpr std::int64_t k_floats_at_once = 4096;
/// Rows and columns of a part that is transposed.
constexpr std::int64_t k_side = 64;

/// Not initialized: in a run of half a microsecond that would show.
struct FloatsAtOnce {
  alignas(64) std::array<float, to_size(k_floats_at_once)> floats;
  float* data() noexcept { return floats.data(); }
};

/// Calls `use` with the first row and column, the rows and the columns of each part.
template <class Use>
void for_each_part(std::int64_t rows, std::int64_t columns, std::int64_t most_rows,
                   std::int64_t most_columns, const Use& use) {
  for (std::int64_t row = 0; row < rows; row += most_rows) {
    for (std::int64_t column = 0; column < columns; column += most_columns) {
      use(row, column, std::min(most_rows, rows - row), std::min(most_columns, columns - column));
    }
  }
}

/// Elements that follow one another.
void round_elements(const float* from, std::int64_t count, const NarrowTarget& to, HostIsa isa) {
  if (is_half(to.type)) {
    round_of(to.type, isa)(from, count, static_cast<std::uint16_t*>(to.data));
  } else {
    quantize_floats({from, to_size(count)}, to.scale, to.type, static_cast<std::uint8_t*>(to.data),
                    isa);
  }
}

void widen_elements(const NarrowSource& from, std::int64_t count, float* to, HostIsa isa) {
  if (is_half(from.type)) {
    widen_of(from.type, isa)(static_cast<const std::uint16_t*>(from.data), count, to);
  } else {
    widen_bytes(static_cast<const std::uint8_t*>(from.data), count, from.scale, from.type, to);
  }
}

void round_rows(const DenseSource& from, std::int64_t rows, std::int64_t columns,
                const NarrowTarget& to, HostIsa isa) {
  if (from.ld == columns && to.ld == columns) {
    round_elements(from.data, rows * columns, to, isa);
    return;
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    round_elements(from.row(row), columns, to.from(row, 0), isa);
  }
}

/// A part of a task: its sums and what belongs to its rows.
Finish part_of(const Finish& task, std::int64_t row, std::int64_t column) {
  Finish part = task;
  part.from = task.from.from(row, column);
  if (task.scale != nullptr) part.scale += row;
  if (task.bias != nullptr) part.bias += row;
  return part;
}

void finish_tokens(const RoundedFinish& rounded, HostIsa isa) {
  FloatsAtOnce floats;
  FloatsAtOnce of_residual;
  const Finish& task = rounded.task;
  for_each_part(
      task.rows, task.columns, k_side, k_side,
      [&](std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t columns) {
        Finish part = part_of(task, row, column);
        part.rows = rows;
        part.columns = columns;
        part.to = {floats.data(), k_side};
        if (rounded.residual.data != nullptr) {
          widen_rows(rounded.residual.from(column, row), columns, rows,
                     {of_residual.data(), k_side}, isa);
          part.residual = {of_residual.data(), k_side};
        }
        finish(part, isa);
        round_rows({floats.data(), k_side}, columns, rows, rounded.to.from(column, row), isa);
      });
}

void finish_features(const RoundedFinish& rounded, HostIsa isa) {
  const Finish& task = rounded.task;
  // Of a quantised B the scale of the rows is there without one of the epilogue.
  if (task.epilogue->empty() && task.scale == nullptr) {
    round_rows(task.from, task.rows, task.columns, rounded.to, isa);
    return;
  }
  FloatsAtOnce floats;
  FloatsAtOnce of_residual;
  const std::int64_t most_columns = std::min(task.columns, k_floats_at_once);
  for_each_part(
      task.rows, task.columns, k_floats_at_once / most_columns, most_columns,
      [&](std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t columns) {
        Finish part = part_of(task, row, column);
        part.rows = rows;
        part.columns = columns;
        part.to = {floats.data(), columns};
        if (rounded.residual.data != nullptr) {
          widen_rows(rounded.residual.from(row, column), rows, columns,
                     {of_residual.data(), columns}, isa);
          part.residual = {of_residual.data(), columns};
        }
        finish(part, isa);
        round_rows({floats.data(), columns}, rows, columns, rounded.to.from(row, column), isa);
      });
}

}  // namespace

void widen_rows(const NarrowSource& from, std::int64_t rows, std::int64_t columns,
                const DenseTarget& to, HostIsa isa) {
  if (from.ld == columns && to.ld == columns) {
    widen_elements(from, rows * columns, to.data, isa);
    return;
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    widen_elements(from.from(row, 0), columns, to.data + row * to.ld, isa);
  }
}

void widen_transposed(const NarrowSource& from, std::int64_t rows, std::int64_t columns,
                      const DenseTarget& to, HostIsa isa) {
  FloatsAtOnce floats;
  for_each_part(
      rows, columns, k_side, k_side,
      [&](std::int64_t row, std::int64_t column, std::int64_t some_rows,
          std::int64_t some_columns) {
        widen_rows(from.from(row, column), some_rows, some_columns, {floats.data(), k_side}, isa);
        transpose(IntoPanels{.from = {floats.data(), k_side},
                             .rows = some_rows,
                             .columns = some_columns,
                             .to = {to.data + column * to.ld + row, some_rows, to.ld, 0}},
                  isa);
      });
}

void finish(const RoundedFinish& rounded, HostIsa isa) {
  if (rounded.task.has_tokens) {
    finish_tokens(rounded, isa);
  } else {
    finish_features(rounded, isa);
  }
}

}  // namespace spjit

#include "kernels/host/operands/typed_rows.hpp"

#include <algorithm>
#include <array>

#include "base/arithmetic.hpp"

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

void round_rows(const DenseSource& from, std::int64_t rows, std::int64_t columns,
                const HalfTarget& to, HostIsa isa) {
  const RoundToHalves round = round_of(to.type, isa);
  if (from.ld == columns && to.ld == columns) {
    round(from.data, rows * columns, to.data);
    return;
  }
  for (std::int64_t row = 0; row < rows; ++row) round(from.row(row), columns, to.at(row, 0));
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
  if (task.epilogue->empty()) {
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

void widen_rows(const HalfSource& from, std::int64_t rows, std::int64_t columns,
                const DenseTarget& to, HostIsa isa) {
  const WidenHalves widen = widen_of(from.type, isa);
  if (from.ld == columns && to.ld == columns) {
    widen(from.data, rows * columns, to.data);
    return;
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    widen(from.at(row, 0), columns, to.data + row * to.ld);
  }
}

void widen_transposed(const HalfSource& from, std::int64_t rows, std::int64_t columns,
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

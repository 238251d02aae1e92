#pragma once

/// @file
/// Columns as numbers that follow the entries of a matrix, not its width.

#include <cstdint>
#include <span>
#include <vector>

#include "base/cancel.hpp"

namespace spjit {

/// Whether an array with an element for each of `cols` columns is at most a small multiple of the
/// entries. It is the fastest way to look a column up; past this, tables follow the used columns.
[[nodiscard]] constexpr bool columns_are_few(std::int64_t cols, std::int64_t entries) noexcept {
  return cols <= 8 * entries;
}

/// Whether all are in [0, cols), `cols` at most 2^31. Without a branch for each.
[[nodiscard]] bool columns_are_within(std::span<const std::int32_t> columns,
                                      std::int64_t cols) noexcept;

/// The entries in ascending order of their columns, those of one column in the order they have. A
/// counting sort digit by digit: linear, whatever the columns are. Throws what `cancel` throws soon
/// after it is reached.
[[nodiscard]] std::vector<std::int64_t> order_by_column(std::span<const std::int32_t> columns,
                                                        const Cancellation& cancel = {});

/// Replaces each column, in [0, cols), by its place among those that occur, in ascending order.
/// Returns how many occur. Time and memory follow the entries, whatever `cols` is. Throws what
/// `cancel` throws soon after it is reached.
std::int64_t number_used_columns(std::span<std::int32_t> columns, std::int64_t cols,
                                 const Cancellation& cancel = {});

/// Numbers for the columns of entries: equal where the columns are, ascending as they are, and so
/// few that a table over them follows the entries. They are the columns themselves where those are
/// few; else all of them are used. May refer to `columns`, which must outlive it.
class ColumnNumbers {
 public:
  ColumnNumbers(std::span<const std::int32_t> columns, std::int64_t cols,
                const Cancellation& cancel = {});
  ColumnNumbers(const ColumnNumbers&) = delete;
  ColumnNumbers& operator=(const ColumnNumbers&) = delete;

  /// Numbers are in [0, count()).
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  [[nodiscard]] std::span<const std::int32_t> of_entries() const noexcept { return of_entries_; }

 private:
  std::int64_t count_;
  std::vector<std::int32_t> own_;
  std::span<const std::int32_t> of_entries_;
};

}  // namespace spjit

#pragma once

/// @file
/// The product that a host family computes of the operands of a layer.

#include <cstdint>
#include <span>

#include "kernels/host/operands/packing.hpp"
#include "spjit/arguments.hpp"
#include "spjit/layout.hpp"

namespace spjit {

class WorkspaceSlots;

/// Columns of B that lie together in every row, up to those of the next run.
struct ColumnRun {
  std::int64_t column;  ///< the first of them
  std::int64_t offset;  ///< floats to it from where the row begins
};

/// C `[m x n]` = A `[m x k]` * B `[k x n]`. B and C are both row-major, or both in panels of the
/// kernel's width. If the family takes it so, C is row-major, and B is tokens-major, in rows at
/// places of their own or in runs of columns. Checked, with every size. Borrowed; B and C do not
/// overlap.
struct Product {
  const float* b = nullptr;
  std::int64_t ldb = 0;  ///< floats between rows of B, >= n, or between its tokens; not of panels
  float* c = nullptr;
  std::int64_t ldc = 0;               ///< floats between rows of C, >= n; not of panels
  std::int64_t n = 0;                 ///< columns of B and C
  Layout layout = Layout::row_major;  ///< of B and C
  bool has_tokens = false;            ///< B is tokens-major, whatever the layout
  bool serial = false;                ///< other threads compute other columns at the same time
  const PreparedValues::Stream* values = nullptr;  ///< A's; null: those of the kernel
  WorkspaceSlots* workspace = nullptr;             ///< what loans are of; null: of the pool
  /// Floats from `b` to each row of B, which may overlap; null: they are `ldb` apart.
  const std::int64_t* places = nullptr;
  /// Where columns of B are, by column, the first of them 0; none: they follow one another.
  std::span<const ColumnRun> runs = {};
  std::int64_t first_column = 0;  ///< of those that runs have, the first that is computed

  /// B, unless it has tokens or panels; the rows of runs.
  [[nodiscard]] DenseSource rows_of_b() const noexcept { return {b, ldb, places}; }

  /// The product of some columns. Not with panels.
  [[nodiscard]] Product columns(std::int64_t first, std::int64_t count) const noexcept {
    Product some = *this;
    if (runs.empty()) {
      some.b += has_tokens ? first * ldb : first;
    } else {
      some.first_column += first;
    }
    some.c += first;
    some.n = count;
    return some;
  }
};

}  // namespace spjit

#pragma once

/// @file
/// Triplets, the form most files store, and the way from them to CSR.

#include <cstdint>
#include <optional>
#include <vector>

#include "spjit/matrix.hpp"

namespace spjit {

/// One entry, counted from 0.
struct CoordinateEntry {
  std::int32_t row = 0;
  std::int32_t col = 0;
  float value = 0;
};

/// Entries in any order as CSR with sorted rows; entries that repeat a position are kept side by
/// side. Linear where entries come column by column or row by row. Precondition: every row is in
/// [0, rows), every column in [0, cols).
[[nodiscard]] CsrMatrix csr_from_coordinates(const std::vector<CoordinateEntry>& entries,
                                             std::int64_t rows, std::int64_t cols);

/// A position.
struct Position {
  std::int64_t row = 0;
  std::int64_t col = 0;
};

/// The first position two entries share. Precondition: rows are sorted.
[[nodiscard]] std::optional<Position> find_duplicate(const CsrMatrix& matrix);

}  // namespace spjit

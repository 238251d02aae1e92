#pragma once

/// @file
/// Consecutive rows of a matrix.

#include <cstdint>

namespace spjit {

/// Rows [begin, end).
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  friend bool operator==(const RowRange&, const RowRange&) = default;
};

}  // namespace spjit

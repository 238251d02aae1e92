#pragma once

/// @file
/// Rows of a sparse matrix grouped by how far their entries are at each column.

#include <cstdint>
#include <span>
#include <vector>

namespace spjit {

/// Rows of A in CSR form, sorted by columns; borrowed.
struct RowColumns {
  std::span<const std::int64_t> row_ptrs;
  std::span<const std::int32_t> col_idxs;
  std::int64_t cols = 0;
};

/// `rows`, which are sorted by length, the longest first, in groups of `lanes` that follow one
/// another. A vector goes through the columns once, an entry of each lane at a time. Its lanes wait
/// least for each other where as many entries of each row lie before every column.
/// Each group begins with the longest row that is left. The others are those of the next longest
/// 128 that widen least the band between its least and its greatest counts, squared, at the ends
/// of eighths of the columns.
[[nodiscard]] std::vector<std::int32_t> rows_by_advance(const RowColumns& matrix,
                                                        std::span<const std::int32_t> rows,
                                                        std::int64_t lanes);

}  // namespace spjit

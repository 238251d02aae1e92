#pragma once

/// @file
/// How much work a grouping may be before its rows are dealt into shards.

#include <cstdint>

#include "reorder/row_subset.hpp"

namespace spjit::reorder {

/// Work is counted in entries of the inverted index visited and candidates compared, each about a
/// nanosecond. Up to `max(exact_work, work_per_nonzero * nnz)` the algorithm sees all rows at once;
/// past that, the rows are dealt into as many shards as bring it there, which makes the cost linear
/// in nnz.
struct GroupingLimits {
  std::int64_t exact_work = std::int64_t{1} << 29;  ///< about 0.5 s
  std::int64_t work_per_nonzero = 512;              ///< about 0.5 s a million nonzeros
};

/// Shards needed for `work`, at least 1 and at most the row tiles there are.
[[nodiscard]] std::int64_t count_shards(std::int64_t work, std::int64_t nnz, std::int64_t tiles,
                                        const GroupingLimits& limits);

/// An upper estimate of what Algorithm 1 costs on `rows` at once. A nonzero visits the tiles that
/// have its column: on average at most half the column's nnz, and never more than all tiles.
[[nodiscard]] std::int64_t estimate_balanced_work(const RowSubset& rows, std::int64_t tiles);

/// An upper estimate of what similarity grouping costs on `rows` at once. Each column that joins a
/// tile visits its rows, half of which are still free on average. Each choice compares the rows
/// that were visited for this tile, or all free ones.
[[nodiscard]] std::int64_t estimate_similarity_work(const RowSubset& rows, std::int64_t m1);

}  // namespace spjit::reorder

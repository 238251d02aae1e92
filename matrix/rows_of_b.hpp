#pragma once

/// @file
/// Which rows of B a kernel reads.

#include <cstdint>
#include <span>

#include "base/cancel.hpp"
#include "base/row_ranges.hpp"

namespace spjit {

/// The rows of B that a matrix with entries in `columns`, out of `cols`, is multiplied with:
/// ascending ranges, each a number of whole blocks of 1024 rows (or up to the last row). A copy of
/// B needs no others, so that what few columns of a very wide matrix cost does not depend on its
/// width. For matrices of up to some thousand columns it is nearly always one range of all rows.
/// Throws what `cancel` throws.
[[nodiscard]] RowRanges rows_of_b(std::span<const std::int32_t> columns, std::int64_t cols,
                                  const Cancellation& cancel = {});

/// Whether most rows of B `[k x n]` are read by no entry of A. Copying B would be most of a run's
/// work then, and its copy most of the memory: kernels for such an A read B where it is.
[[nodiscard]] constexpr bool is_mostly_unread(std::int64_t k, std::int64_t nnz) noexcept {
  constexpr std::int64_t k_cheap_rows = 65536;  // their copy costs microseconds
  return k > 8 * nnz + k_cheap_rows;
}

}  // namespace spjit

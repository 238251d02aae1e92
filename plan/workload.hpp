#pragma once

/// @file
/// A problem in numbers: what rules, formulas, features and samples look at.

#include <cstdint>
#include <optional>

#include "base/cancel.hpp"
#include "spjit/problem.hpp"

namespace spjit {

/// The counts of a problem, and on how many threads of a host it runs.
struct Workload {
  std::int64_t rows = 0;  ///< non-empty rows of A
  std::int64_t cols = 0;  ///< k
  std::int64_t nnz = 0;
  std::int64_t n = 1;
  std::int64_t threads = 1;
  double row_nnz_cv = 0;                           ///< coefficient of variation of nnz over rows
  std::int64_t ldb = 0;                            ///< floats between rows of B; 0: n
  std::int64_t ldc = 0;                            ///< floats between rows of C; 0: n
  std::int64_t m = 0;                              ///< rows of A and C, empty ones included
  std::int64_t used_cols = 0;                      ///< columns with entries; 0: not counted
  std::optional<std::int64_t> panel_columns = {};  ///< forced panel width
  /// No code is for rows of B where they are (copies_b()).
  bool copies_b = false;
  /// Sums go another way to C than straight: through an epilogue or to tokens.
  bool finishes_c = false;
};

/// Coefficient of variation of the nonzeros over all rows; 0: there are none. Throws what `cancel`
/// throws.
[[nodiscard]] double row_nnz_cv(const CsrMatrix& matrix, const Cancellation& cancel = {});

/// Workload of a valid problem. Throws what `cancel` throws soon after it is reached.
[[nodiscard]] Workload workload_of(const Problem& problem, std::int64_t threads,
                                   const Cancellation& cancel = {});

}  // namespace spjit

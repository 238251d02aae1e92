#include "plan/workload.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/arithmetic.hpp"
#include "matrix/cancellable.hpp"
#include "matrix/column_numbers.hpp"
#include "plan/operation.hpp"
#include "plan/problem.hpp"

namespace spjit {

namespace {

/// Columns with entries, or a bound where counting them would take longer than their number tells.
std::int64_t count_used_columns(const CsrMatrix& matrix, const Cancellation& cancel) {
  if (!columns_are_few(matrix.cols, matrix.nnz())) return matrix.nnz();
  std::vector<std::uint8_t> used(to_size(matrix.cols));
  for_each_piece(matrix.nnz(), cancel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) used[to_size(matrix.col_idxs[to_size(i)])] = 1;
  });
  return std::ranges::count(used, 1);
}

}  // namespace

double row_nnz_cv(const CsrMatrix& matrix, const Cancellation& cancel) {
  const double mean = as_double(matrix.nnz()) / std::max(1.0, as_double(matrix.rows));
  double squares = 0;
  for_each_piece(matrix.rows, cancel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const double off =
          as_double(matrix.row_ptrs[to_size(row) + 1] - matrix.row_ptrs[to_size(row)]) - mean;
      squares += off * off;
    }
  });
  return mean > 0 ? std::sqrt(squares / as_double(matrix.rows)) / mean : 0;
}

Workload workload_of(const Problem& problem, std::int64_t threads, const Cancellation& cancel) {
  const CsrMatrix& matrix = *problem.a;
  Workload work;
  work.rows = non_empty_rows(matrix, cancel);
  work.cols = matrix.cols;
  work.nnz = matrix.nnz();
  work.n = problem.n.value;
  work.threads = threads;
  const OperationRules& rules = rules_of(problem);
  const bool widens_b = problem.numerics.b != DataType::f32;
  const bool rounds_c = problem.numerics.c != DataType::f32;
  const bool has_rows_of_b = rules.has_rows_of_b(problem.b.layout) && !widens_b;
  const bool has_rows_of_c = problem.c.layout == Layout::row_major && !rounds_c;
  work.ldb = has_rows_of_b ? problem.ldb() : problem.n.value;
  work.ldc = has_rows_of_c ? problem.ldc() : problem.n.value;
  work.copies_b = copies_b(problem);
  work.finishes_c = problem.c.layout == Layout::tokens_major || !problem.epilogue.empty() ||
                    rounds_c || rules.gathers_b();
  work.m = matrix.rows;
  work.panel_columns = problem.panel_columns;
  work.used_cols = count_used_columns(matrix, cancel);
  work.row_nnz_cv = row_nnz_cv(matrix, cancel);
  return work;
}

}  // namespace spjit

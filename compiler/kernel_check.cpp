#include "compiler/kernel_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/arithmetic.hpp"
#include "matrix/rows_of_b.hpp"
#include "spjit/matrix_io.hpp"

namespace spjit {
namespace {

/// In front of the first row and behind the last; a cache line, so that rows stay aligned.
constexpr std::int64_t k_guard_floats = 16;
constexpr std::uint32_t k_unwritten_bits = 0x7FA5A5A5;

void fill_unwritten(float* begin, std::int64_t count, CancelPace& pace) {
  pace.pieces(0, count, [&](std::int64_t from, std::int64_t to) {
    std::fill(begin + from, begin + to, std::bit_cast<float>(k_unwritten_bits));
  });
}

bool has_unwritten_only(const float* begin, std::int64_t count, CancelPace& pace) {
  bool found = false;
  pace.pieces(0, count, [&](std::int64_t from, std::int64_t to) {
    found = found || !std::all_of(begin + from, begin + to, is_unwritten);
  });
  return !found;
}

/// Whether no B in [-1, 1) makes NaN or an infinity of A, in fp32 and in any order.
bool gives_finite_sums(const CsrMatrix& matrix, CancelPace& pace) {
  double magnitude = 0;
  pace.pieces(0, matrix.nnz(), [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i) {
      magnitude += std::abs(static_cast<double>(matrix.values[to_size(i)]));
    }
  });
  return magnitude <= static_cast<double>(std::numeric_limits<float>::max());  // false for NaN
}

RowRanges all_rows(std::int64_t rows) {
  RowRanges all;
  if (rows > 0) all.add(0, rows);
  return all;
}

bool is_empty_row(const CsrMatrix& matrix, std::int64_t row) {
  return matrix.row_ptrs[to_size(row)] == matrix.row_ptrs[to_size(row) + 1];
}

/// C of a run, and how the problem's text names the run.
struct Output {
  GuardedRows c;
  CheckLayout layout;

  [[nodiscard]] std::string describe(const std::string& what) const {
    return fmt::format("wrong result: {} (ldb = {}, ldc = {})", what, layout.ldb, layout.ldc);
  }
};

/// What is wrong with elements of a row, whatever B is; or empty.
std::string row_problem(const GuardedRows& c, std::int64_t row, bool empty, bool finite,
                        CancelPace& pace) {
  const float* values = c.row(row);
  for (std::int64_t j = 0; j < c.n(); ++j) {
    const float value = values[j];
    pace.spend(1);
    if (is_unwritten(value)) return fmt::format("C[{}][{}] was not written", row, j);
    if (empty && std::bit_cast<std::uint32_t>(value) != 0) {
      return fmt::format("C[{}][{}] is {:.9g}, expected +0: the row of A has no entries", row, j,
                         value);
    }
    if (finite && std::isnan(value)) {
      return fmt::format("C[{}][{}] is NaN, and A and B have none", row, j);
    }
  }
  return {};
}

std::string output_problem(const CsrMatrix& matrix, const Output& output, bool finite,
                           CancelPace& pace) {
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    std::string problem = row_problem(output.c, row, is_empty_row(matrix, row), finite, pace);
    if (!problem.empty()) return output.describe(problem);
  }
  const std::string touched = output.c.touched(pace);
  return touched.empty() ? "" : output.describe("the kernel wrote outside C, " + touched);
}

GuardedRows make_b(const CheckedKernel& kernel, const CheckLayout& layout, const RowRanges& read,
                   CancelPace& pace) {
  GuardedRows b(kernel.matrix.cols, kernel.n, layout.ldb, read, pace);
  for (const RowRange& range : read.ranges()) {
    for (std::int64_t row = range.begin; row < range.end; ++row) {
      float* values = b.row(row);
      for (std::int64_t j = 0; j < kernel.n; ++j) {
        values[j] = pattern_value(k_check_seed, row, j);
        pace.spend(1);
      }
    }
  }
  return b;
}

/// Sparse unless all of them are used: pages that nobody touches are no memory then.
FloatBuffer buffer_of(std::int64_t rows, std::int64_t ld, const RowRanges& used) {
  const std::size_t floats = to_size(checked_add(checked_multiply(rows, ld, "floats of a check"),
                                                 2 * k_guard_floats, "floats of a check"));
  return used.count() < rows ? FloatBuffer::sparse(floats) : FloatBuffer(floats);
}

/// Compares one row of every output.
void compare(CheckResult& result, const std::vector<Output>& outputs, std::int64_t row,
             std::span<const Reference> references, std::span<const std::int64_t> columns) {
  for (const Output& output : outputs) {
    const float* values = output.c.row(row);
    for (std::size_t i = 0; i < references.size(); ++i) {
      const Reference& reference = references[i];
      const float value = values[columns[i]];
      const double ratio = judge(value, reference);
      if (std::isfinite(reference.value) && std::isfinite(value)) {
        result.max_abs_error =
            std::max(result.max_abs_error, std::abs(static_cast<double>(value) - reference.value));
      }
      result.max_error_over_bound = std::max(result.max_error_over_bound, ratio);
      if (ratio <= 1 || !result.problem.empty()) continue;
      result.problem =
          output.describe(fmt::format("C[{}][{}] is {:.9g}, the float64 reference {:.9g} +- {:.3g}",
                                      row, columns[i], value, reference.value, reference.bound));
    }
  }
}

}  // namespace

bool is_unwritten(float value) noexcept {
  return std::bit_cast<std::uint32_t>(value) == k_unwritten_bits;
}

GuardedRows::GuardedRows(std::int64_t rows, std::int64_t n, std::int64_t ld, const RowRanges& used,
                         CancelPace& pace)
    : rows_(rows), n_(n), ld_(ld), floats_(buffer_of(rows, ld, used)) {
  const auto guard = [&](std::int64_t begin, std::int64_t end) {
    float* first = row(begin) - k_guard_floats;
    fill_unwritten(first, row(end) + k_guard_floats - first, pace);
  };
  // With a guard on both sides, which no other range comes near to: a thousand rows lie between.
  for (const RowRange& range : used.ranges()) guard(range.begin, range.end);
  if (used.count() == 0) guard(0, 0);
}

float* GuardedRows::row(std::int64_t row) const noexcept {
  return floats_.data() + k_guard_floats + row * ld_;
}

std::string GuardedRows::touched(CancelPace& pace) const {
  if (!has_unwritten_only(row(0) - k_guard_floats, k_guard_floats, pace)) {
    return "in front of its first row";
  }
  for (std::int64_t i = 0; i < rows_; ++i) {
    if (!has_unwritten_only(row(i) + n_, ld_ - n_, pace)) return fmt::format("behind row {}", i);
    pace.spend(1);
  }
  return has_unwritten_only(row(rows_), k_guard_floats, pace) ? "" : "behind its last row";
}

double GuardedRows::bytes(std::int64_t rows, std::int64_t ld) noexcept {
  return as_double(rows) * as_double(ld) * static_cast<double>(sizeof(float));
}

double most_check_bytes(double memory_bytes) noexcept { return std::min(8e9, memory_bytes / 2); }

double CheckedKernel::bytes(const Cancellation& cancel) const {
  const RowRanges read = rows_of_b(matrix.col_idxs, matrix.cols, cancel);
  double total = GuardedRows::bytes(read.count(), layouts.back().ldb);
  for (const CheckLayout& layout : layouts) total += GuardedRows::bytes(matrix.rows, layout.ldc);
  return total;
}

CheckResult check_kernel(const CheckedKernel& kernel, const CheckOptions& options) {
  const CsrMatrix& matrix = kernel.matrix;
  CancelPace pace(options.cancel);
  const bool finite = gives_finite_sums(matrix, pace);
  const RowRanges read = rows_of_b(matrix.col_idxs, matrix.cols, options.cancel);
  std::optional<GuardedRows> b;
  CheckResult result;
  std::vector<Output> outputs;
  for (const CheckLayout& layout : kernel.layouts) {
    b.reset();  // its memory first
    b.emplace(make_b(kernel, layout, read, pace));
    const Output& output = outputs.emplace_back(Output{
        GuardedRows(matrix.rows, kernel.n, layout.ldc, all_rows(matrix.rows), pace), layout});
    options.cancel.check();
    kernel.run({b->row(0), layout.ldb, output.c.row(0), layout.ldc, kernel.n});
    options.cancel.check();
    result.problem = output_problem(matrix, output, finite, pace);
    if (!result.passed()) return result;
  }
  const ReferenceSample sample =
      options.most_products
          ? choose_sample(matrix, kernel.n, *options.most_products, options.cancel)
          : whole_sample(matrix, kernel.n);
  ReferenceRows references(matrix, b->row(0), b->ld(), sample.columns);
  for (std::int64_t i = 0; i < sample.row_count(); ++i) {
    const std::int64_t row = sample.row(i);
    pace.spend(1);
    if (is_empty_row(matrix, row)) continue;  // +0, as was seen above
    compare(result, outputs, row, references.row(row, pace), references.columns());
  }
  result.rows_checked = sample.row_count();
  result.columns_checked = sample.columns.count;
  return result;
}

}  // namespace spjit

#include "compiler/kernel_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "runtime/arithmetic.hpp"
#include "spjit/matrix_io.hpp"

namespace spjit {
namespace {

/// In front of the first row and behind the last; a cache line, so that rows stay aligned.
constexpr std::int64_t k_guard_floats = 16;
constexpr std::uint32_t k_unwritten_bits = 0x7FA5A5A5;

void fill_unwritten(float* begin, std::int64_t count, PacedCancel& cancel) {
  constexpr std::int64_t k_piece = std::int64_t{1} << 16;
  for (std::int64_t done = 0; done < count; done += k_piece) {
    const std::int64_t piece = std::min(k_piece, count - done);
    std::fill_n(begin + done, piece, std::bit_cast<float>(k_unwritten_bits));
    cancel.did(piece);
  }
}

bool has_unwritten_only(const float* begin, std::int64_t count) {
  return std::all_of(begin, begin + count, is_unwritten);
}

/// Whether no B in [-1, 1) makes NaN or an infinity of A, in fp32 and in any order.
bool gives_finite_sums(const CsrMatrix& matrix) {
  double magnitude = 0;
  for (const float value : matrix.values) magnitude += std::abs(static_cast<double>(value));
  return magnitude <= static_cast<double>(std::numeric_limits<float>::max());  // false for NaN
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
std::string row_problem(const GuardedRows& c, std::int64_t row, bool empty, bool finite) {
  const float* values = c.row(row);
  for (std::int64_t j = 0; j < c.n(); ++j) {
    const float value = values[j];
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

std::string output_problem(const CsrMatrix& matrix, const Output& output, PacedCancel& cancel) {
  const bool finite = gives_finite_sums(matrix);
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    std::string problem = row_problem(output.c, row, is_empty_row(matrix, row), finite);
    if (!problem.empty()) return output.describe(problem);
    cancel.did(output.c.n());
  }
  const std::string touched = output.c.touched(cancel);
  return touched.empty() ? "" : output.describe("the kernel wrote outside C, " + touched);
}

GuardedRows make_b(const CheckedKernel& kernel, PacedCancel& cancel) {
  GuardedRows b(kernel.matrix.cols, kernel.n, kernel.layouts.front().ldb, kernel.layouts.back().ldb,
                cancel);
  for (std::int64_t row = 0; row < b.rows(); ++row) {
    float* values = b.row(row);
    for (std::int64_t j = 0; j < kernel.n; ++j) {
      values[j] = pattern_value(k_check_seed, row, j);
      cancel.did(1);
    }
  }
  return b;
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

GuardedRows::GuardedRows(std::int64_t rows, std::int64_t n, std::int64_t ld,
                         std::int64_t largest_ld, PacedCancel& cancel)
    : rows_(rows), n_(n), ld_(ld), floats_(to_size(rows * largest_ld + 2 * k_guard_floats)) {
  fill_unwritten(floats_.data(), static_cast<std::int64_t>(floats_.size()), cancel);
}

float* GuardedRows::row(std::int64_t row) const noexcept {
  return floats_.data() + k_guard_floats + row * ld_;
}

void GuardedRows::respace(std::int64_t ld, PacedCancel& cancel) {
  if (ld == ld_) return;
  // The last one first: no row lands on one that has not moved yet.
  for (std::int64_t i = rows_ - 1; i >= 0; --i) {
    const float* from = row(i);
    float* to = floats_.data() + k_guard_floats + i * ld;
    std::memmove(to, from, to_size(n_) * sizeof(float));
    fill_unwritten(to + n_, ld - n_, cancel);
    cancel.did(n_);
  }
  ld_ = ld;
}

std::string GuardedRows::touched(PacedCancel& cancel) const {
  if (!has_unwritten_only(floats_.data(), k_guard_floats)) return "in front of its first row";
  for (std::int64_t i = 0; i < rows_; ++i) {
    if (!has_unwritten_only(row(i) + n_, ld_ - n_)) return fmt::format("behind row {}", i);
    cancel.did(ld_ - n_ + 1);
  }
  return has_unwritten_only(row(rows_), k_guard_floats) ? "" : "behind its last row";
}

double GuardedRows::bytes(std::int64_t rows, std::int64_t ld) noexcept {
  return as_double(rows) * as_double(ld) * static_cast<double>(sizeof(float));
}

double CheckedKernel::bytes() const noexcept {
  double total = GuardedRows::bytes(matrix.cols, layouts.back().ldb);
  for (const CheckLayout& layout : layouts) total += GuardedRows::bytes(matrix.rows, layout.ldc);
  return total;
}

CheckResult check_kernel(const CheckedKernel& kernel, const CheckOptions& options) {
  const CsrMatrix& matrix = kernel.matrix;
  PacedCancel cancel(options.cancel);
  GuardedRows b = make_b(kernel, cancel);
  CheckResult result;
  std::vector<Output> outputs;
  for (const CheckLayout& layout : kernel.layouts) {
    b.respace(layout.ldb, cancel);
    const Output& output = outputs.emplace_back(
        Output{GuardedRows(matrix.rows, kernel.n, layout.ldc, layout.ldc, cancel), layout});
    options.cancel.check();
    kernel.run({b.row(0), layout.ldb, output.c.row(0), layout.ldc, kernel.n});
    options.cancel.check();
    result.problem = output_problem(matrix, output, cancel);
    if (!result.passed()) return result;
  }
  const ReferenceSample sample = options.most_products
                                     ? choose_sample(matrix, kernel.n, *options.most_products)
                                     : whole_sample(matrix, kernel.n);
  ReferenceRows references(matrix, b.row(0), b.ld(), sample.columns);
  for (std::int64_t i = 0; i < sample.row_count(); ++i) {
    const std::int64_t row = sample.row(i);
    cancel.did(1);
    if (is_empty_row(matrix, row)) continue;  // +0, as was seen above
    compare(result, outputs, row, references.row(row, cancel), references.columns());
  }
  result.rows_checked = sample.row_count();
  result.columns_checked = sample.columns.count;
  return result;
}

}  // namespace spjit

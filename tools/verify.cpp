#include "verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace spjit::cli {
namespace {

constexpr std::int64_t k_least_sampled_columns = 16;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

std::int64_t row_nnz(const CsrMatrix& matrix, std::int64_t row) {
  return matrix.row_ptrs[at(row) + 1] - matrix.row_ptrs[at(row)];
}

// `count` numbers of [0, size) at even distances, the first and the last among them.
std::vector<std::int64_t> spread(std::int64_t size, std::int64_t count) {
  std::vector<std::int64_t> numbers;
  count = std::min(size, std::max<std::int64_t>(count, 2));
  for (std::int64_t i = 0; i < count; ++i) {
    numbers.push_back(count == 1 ? 0
                                 : static_cast<std::int64_t>(static_cast<double>(i) *
                                                             static_cast<double>(size - 1) /
                                                             static_cast<double>(count - 1)));
  }
  return numbers;
}

struct Position {
  std::int64_t row = 0;
  std::int64_t column = 0;
};

struct Sample {
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> columns;
};

// Columns go first: a column says as much about the code as another, a row does not.
Sample choose_sample(const CsrMatrix& matrix, std::int64_t n, std::int64_t most_products) {
  const std::int64_t nnz = std::max<std::int64_t>(matrix.nnz(), 1);
  const std::int64_t columns =
      std::clamp(most_products / nnz, std::min(k_least_sampled_columns, n), n);
  const double affordable = static_cast<double>(most_products) / static_cast<double>(columns) /
                            static_cast<double>(nnz) * static_cast<double>(matrix.rows);
  Sample sample{{}, spread(n, columns)};
  if (affordable >= static_cast<double>(matrix.rows)) {
    sample.rows = spread(matrix.rows, matrix.rows);
    return sample;
  }
  sample.rows = spread(matrix.rows, static_cast<std::int64_t>(affordable));
  std::int64_t fullest = 0;
  for (std::int64_t row = 1; row < matrix.rows; ++row) {
    if (row_nnz(matrix, row) > row_nnz(matrix, fullest)) fullest = row;
  }
  if (!std::binary_search(sample.rows.begin(), sample.rows.end(), fullest)) {
    sample.rows.push_back(fullest);
  }
  return sample;
}

struct Reference {
  double value = 0;
  double bound = 0;  // on |fp32 result - value|
};

// One row of C at some columns.
std::vector<Reference> compute_references(const CsrMatrix& matrix, const Operands& operands,
                                          std::int64_t row,
                                          const std::vector<std::int64_t>& columns) {
  const std::int64_t begin = matrix.row_ptrs[at(row)];
  const std::int64_t end = matrix.row_ptrs[at(row) + 1];
  std::vector<Reference> references(columns.size());  // bound: sum |a b| at first
  for (std::int64_t i = begin; i < end; ++i) {
    const auto a = static_cast<double>(matrix.values[at(i)]);
    const float* b_row = operands.b.data() + matrix.col_idxs[at(i)] * operands.n;
    for (std::size_t j = 0; j < columns.size(); ++j) {
      const double product = a * static_cast<double>(b_row[columns[j]]);
      references[j].value += product;
      references[j].bound += std::abs(product);
    }
  }
  const double products = static_cast<double>(end - begin) * 0x1p-24;
  // Products below the normal range lose up to half of the smallest subnormal number each.
  const double underflow = static_cast<double>(end - begin) *
                           static_cast<double>(std::numeric_limits<float>::denorm_min());
  for (Reference& reference : references) {
    reference.bound = products / (1 - products) * reference.bound + underflow;
  }
  return references;
}

// The error over its bound: at most 1 if the element is right, infinite if it is hopeless.
double judge(float value, const Reference& reference) {
  if (!std::isfinite(reference.value)) {
    const bool same = std::isnan(reference.value)
                          ? std::isnan(value)
                          : static_cast<double>(value) == reference.value || std::isnan(value);
    return same ? 0 : std::numeric_limits<double>::infinity();
  }
  const bool may_overflow = std::abs(reference.value) + reference.bound >
                            static_cast<double>(std::numeric_limits<float>::max());
  if (may_overflow && !std::isfinite(value)) return 0;
  if (!std::isfinite(value)) return std::numeric_limits<double>::infinity();
  const double error = std::abs(static_cast<double>(value) - reference.value);
  return error == 0 ? 0 : error / reference.bound;  // infinite where nothing may be off
}

void check_element(Verification& result, const Position& position, float value,
                   const Reference& reference) {
  const double ratio = judge(value, reference);
  if (ratio > 0 && std::isfinite(reference.value) && std::isfinite(value)) {
    result.max_abs_error =
        std::max(result.max_abs_error, std::abs(static_cast<double>(value) - reference.value));
  }
  result.max_error_over_bound = std::max(result.max_error_over_bound, ratio);
  if (ratio <= 1 || !result.problem.empty()) return;
  result.problem = fmt::format(
      "wrong result: C[{}][{}] is {:.9g}, the float64 reference {:.9g} +- {:.3g}; please report "
      "this matrix and 'spjit devices'",
      position.row, position.column, value, reference.value, reference.bound);
}

bool all_finite(const CsrMatrix& matrix) {
  return std::all_of(matrix.values.begin(), matrix.values.end(),
                     [](float value) { return std::isfinite(value); });
}

// C was filled with NaN. A finite A makes no NaN out of a B in [-1, 1) unless sums overflow to both
// infinities, so largest values rule that out.
void check_all_written(Verification& result, const CsrMatrix& matrix, const Operands& operands) {
  if (!all_finite(matrix)) return;
  double magnitude = 0;
  for (const float value : matrix.values) magnitude += std::abs(static_cast<double>(value));
  if (magnitude > static_cast<double>(std::numeric_limits<float>::max())) return;
  const auto c = operands.c.span();
  const auto hole = std::find_if(c.begin(), c.end(), [](float value) { return std::isnan(value); });
  if (hole == c.end() || !result.problem.empty()) return;
  const std::int64_t index = hole - c.begin();
  result.problem = fmt::format(
      "wrong result: C[{}][{}] was not written; please report this matrix "
      "and 'spjit devices'",
      index / operands.n, index % operands.n);
}

}  // namespace

Verification verify(const SpmmKernel& kernel, const CsrMatrix& matrix, Operands& operands,
                    std::int64_t most_products) {
  return verify([&](const float* b, float* c) { kernel.run(b, c); }, matrix, operands,
                most_products);
}

Verification verify(const RunKernel& run, const CsrMatrix& matrix, Operands& operands,
                    std::int64_t most_products) {
  run(operands.b.data(), operands.c.data());

  Verification result;
  result.rows = matrix.rows;
  result.columns = operands.n;
  const Sample sample = choose_sample(matrix, operands.n, most_products);
  result.rows_checked = static_cast<std::int64_t>(sample.rows.size());
  result.columns_checked = static_cast<std::int64_t>(sample.columns.size());
  for (const std::int64_t row : sample.rows) {
    const std::vector<Reference> references =
        compute_references(matrix, operands, row, sample.columns);
    for (std::size_t j = 0; j < references.size(); ++j) {
      const Position position{row, sample.columns[j]};
      check_element(result, position,
                    operands.c.data()[position.row * operands.n + position.column], references[j]);
    }
  }
  check_all_written(result, matrix, operands);
  return result;
}

Json describe(const Verification& verification) {
  return {{"passed", verification.passed()},
          {"max_abs_error", verification.max_abs_error},
          {"max_error_over_bound", verification.max_error_over_bound},
          {"rows_checked", verification.rows_checked},
          {"columns_checked", verification.columns_checked},
          {"complete", verification.complete()}};
}

std::string extent(const Verification& verification) {
  if (verification.complete()) return "all of C";
  return fmt::format("{} of {} rows x {} of {} columns", verification.rows_checked,
                     verification.rows, verification.columns_checked, verification.columns);
}

}  // namespace spjit::cli

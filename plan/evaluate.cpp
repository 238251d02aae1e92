#include "plan/evaluate.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

#include "base/arithmetic.hpp"

namespace spjit {
namespace {

void add_scaled_row_fused(float value, const float* b, float* c, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) c[j] = std::fma(value, b[j], c[j]);
}

// The same loop where std::fma is one instruction, not a call: ten times as fast, the same bits.
__attribute__((target("avx2,fma"))) void add_scaled_row_fma3(float value, const float* b, float* c,
                                                             std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) c[j] = std::fma(value, b[j], c[j]);
}

void add_scaled_row_separate(float value, const float* b, float* c, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) {
    float product = value * b[j];
    // Without this, -ffp-contract=fast and -march=native would make one FMA of product and sum.
    asm("" : "+x"(product));
    c[j] += product;
  }
}

/// One row of C in float64 and, for each element, sum |a| |b|.
struct Float64Row {
  std::vector<double> values;
  std::vector<double> absolute;
};

void evaluate_row(const CsrMatrix& matrix, std::int64_t row, const Arguments& operands,
                  Float64Row& result) {
  std::fill(result.values.begin(), result.values.end(), 0.0);
  std::fill(result.absolute.begin(), result.absolute.end(), 0.0);
  for (std::int64_t i = matrix.row_ptrs[to_size(row)]; i < matrix.row_ptrs[to_size(row) + 1]; ++i) {
    // Products of floats are exact in double.
    const double value = matrix.values[to_size(i)];
    const float* b = operands.b + matrix.col_idxs[to_size(i)] * operands.ldb;
    for (std::int64_t j = 0; j < operands.n; ++j) {
      const double product = value * static_cast<double>(b[j]);
      result.values[to_size(j)] += product;
      result.absolute[to_size(j)] += std::abs(product);
    }
  }
}

std::int64_t nnz_of_row(const CsrMatrix& matrix, std::int64_t row) {
  return matrix.row_ptrs[to_size(row) + 1] - matrix.row_ptrs[to_size(row)];
}

struct ElementError {
  double error = 0;
  double bound_ratio = 0;
};

ElementError error_of(float actual, double expected, double bound) {
  constexpr double k_infinity = std::numeric_limits<double>::infinity();
  const auto given = static_cast<double>(actual);
  if (std::isnan(given) && std::isnan(expected)) return {};
  if (given == expected) return {};
  const double error = std::abs(given - expected);
  if (!std::isfinite(error)) return {k_infinity, k_infinity};
  return {error, bound > 0 ? error / bound : k_infinity};
}

}  // namespace

AddScaledRow add_scaled_row_of(Arithmetic arithmetic) noexcept {
  if (arithmetic == Arithmetic::separate) return add_scaled_row_separate;
  const bool fma3 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  return fma3 ? add_scaled_row_fma3 : add_scaled_row_fused;
}

Arithmetic arithmetic_of(HostIsa isa) noexcept {
  return isa == HostIsa::generic ? Arithmetic::separate : Arithmetic::fused;
}

void evaluate(const KernelPlan& plan, Arithmetic arithmetic, const Arguments& operands) {
  const AddScaledRow add_scaled_row = add_scaled_row_of(arithmetic);
  const auto c_row = [&](std::int32_t row) { return operands.c + row * operands.ldc; };
  for (const RowRange& rows : plan.grouping.empty_rows.ranges()) {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      std::fill_n(operands.c + row * operands.ldc, operands.n, 0.0F);
    }
  }
  for (std::int64_t tile = 0; tile < plan.grouping.tiles(); ++tile) {
    const std::span<const std::int32_t> rows = plan.tile_rows(tile);
    for (const std::int32_t row : rows) std::fill_n(c_row(row), operands.n, 0.0F);
    for (std::int64_t block = 0; block < plan.k_blocks; ++block) {
      const PlanSegment segment = plan.segment(tile, block);
      for (std::int64_t i = segment.column_begin; i < segment.column_end; ++i) {
        const float* b = operands.b + plan.columns[to_size(i)] * operands.ldb;
        for (std::int64_t e = plan.entry_ptrs[to_size(i)]; e < plan.entry_ptrs[to_size(i) + 1];
             ++e) {
          const std::int32_t row = rows[static_cast<std::size_t>(plan.entry_rows[to_size(e)])];
          add_scaled_row(plan.entry_values[to_size(e)], b, c_row(row), operands.n);
        }
      }
    }
  }
}

double rounding_bound(std::int64_t nnz, double absolute_sum) noexcept {
  if (nnz == 0) return 0;
  const auto terms = static_cast<double>(nnz);
  const auto gamma = [&](double u) {
    return terms * u < 1 ? terms * u / (1 - terms * u) : std::numeric_limits<double>::infinity();
  };
  // Twice 2^-150 a term: the product and the sum may both underflow.
  return (gamma(0x1p-24) + gamma(0x1p-53)) * absolute_sum + terms * 0x1p-149;
}

Float64Product evaluate_float64(const CsrMatrix& matrix, const Arguments& operands) {
  Float64Product product{matrix.rows, operands.n, {}, {}};
  product.values.reserve(to_size(matrix.rows * operands.n));
  product.bounds.reserve(to_size(matrix.rows * operands.n));
  Float64Row row{std::vector<double>(to_size(operands.n)),
                 std::vector<double>(to_size(operands.n))};
  for (std::int64_t i = 0; i < matrix.rows; ++i) {
    evaluate_row(matrix, i, operands, row);
    product.values.insert(product.values.end(), row.values.begin(), row.values.end());
    for (const double absolute : row.absolute) {
      product.bounds.push_back(rounding_bound(nnz_of_row(matrix, i), absolute));
    }
  }
  return product;
}

ErrorReport compare_with_float64(const CsrMatrix& matrix, const Arguments& operands) {
  ErrorReport report;
  Float64Row expected{std::vector<double>(to_size(operands.n)),
                      std::vector<double>(to_size(operands.n))};
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    evaluate_row(matrix, row, operands, expected);
    const float* c = operands.c + row * operands.ldc;
    const std::int64_t nnz = nnz_of_row(matrix, row);
    for (std::int64_t j = 0; j < operands.n; ++j) {
      const ElementError element = error_of(c[j], expected.values[to_size(j)],
                                            rounding_bound(nnz, expected.absolute[to_size(j)]));
      report.max_error = std::max(report.max_error, element.error);
      if (element.bound_ratio > report.max_bound_ratio) {
        report.max_bound_ratio = element.bound_ratio;
        report.row = row;
        report.col = j;
      }
    }
  }
  return report;
}

}  // namespace spjit

#pragma once

/// @file
/// C in float64 with the bound that rounding allows: what tests and benchmarks hold a kernel's
/// result against.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/arithmetic.hpp"
#include "kernels/host/operands/product.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// C in float64 and how far an fp32 kernel may be from it.
struct Float64Product {
  std::int64_t rows = 0;
  std::int64_t n = 0;
  std::vector<double> values;  ///< [rows x n] row-major, summed in ascending column order
  std::vector<double> bounds;  ///< [rows x n] see rounding_bound()
};

/// Reads b, ldb and n of `operands` only. Memory: 16 bytes an element of C.
[[nodiscard]] Float64Product evaluate_float64(const CsrMatrix& matrix, const Product& operands);

/// Largest |c - sum a_i b_i| of an fp32 dot product of `nnz` terms in any order, fused or not:
/// gamma(nnz) * sum |a_i| |b_i|, gamma(k) = k u / (1 - k u), u = 2^-24 (Higham, Accuracy and
/// Stability of Numerical Algorithms, 2nd ed., eq. 3.5). Added to it: what the float64 sum itself
/// may be off (the same with u = 2^-53) and half the smallest subnormal, 2^-150, for each rounding
/// that may underflow, which Higham's model leaves out. Infinite from nnz * u >= 1 on.
[[nodiscard]] double rounding_bound(std::int64_t nnz, double absolute_sum) noexcept;

/// How far a C is from the float64 product.
struct ErrorReport {
  double max_error = 0;        ///< largest |c - c64|
  double max_bound_ratio = 0;  ///< largest |c - c64| / bound; over 1: more than rounding explains
  std::int64_t row = 0;        ///< where that ratio is, from 0
  std::int64_t col = 0;

  [[nodiscard]] bool within_bound() const noexcept { return max_bound_ratio <= 1; }
};

/// Compares `operands.c` with the float64 product of the matrix and `operands.b`, row by row (no
/// memory to speak of). Where the product is NaN or infinite, C must be the same; a C that is not,
/// or is not finite where the product is, counts as an infinite error.
[[nodiscard]] ErrorReport compare_with_float64(const CsrMatrix& matrix, const Product& operands);

namespace float64_check {

/// One row of C in float64 and, for each element, sum |a| |b|.
struct Float64Row {
  std::vector<double> values;
  std::vector<double> absolute;
};

inline void evaluate_row(const CsrMatrix& matrix, std::int64_t row, const Product& operands,
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

inline std::int64_t nnz_of_row(const CsrMatrix& matrix, std::int64_t row) {
  return matrix.row_ptrs[to_size(row) + 1] - matrix.row_ptrs[to_size(row)];
}

struct ElementError {
  double error = 0;
  double bound_ratio = 0;
};

inline ElementError error_of(float actual, double expected, double bound) {
  constexpr double k_infinity = std::numeric_limits<double>::infinity();
  const auto given = static_cast<double>(actual);
  if (std::isnan(given) && std::isnan(expected)) return {};
  if (given == expected) return {};
  const double error = std::abs(given - expected);
  if (!std::isfinite(error)) return {k_infinity, k_infinity};
  return {error, bound > 0 ? error / bound : k_infinity};
}

}  // namespace float64_check

inline double rounding_bound(std::int64_t nnz, double absolute_sum) noexcept {
  if (nnz == 0) return 0;
  const auto terms = static_cast<double>(nnz);
  const auto gamma = [&](double u) {
    return terms * u < 1 ? terms * u / (1 - terms * u) : std::numeric_limits<double>::infinity();
  };
  // Twice 2^-150 a term: the product and the sum may both underflow.
  return (gamma(0x1p-24) + gamma(0x1p-53)) * absolute_sum + terms * 0x1p-149;
}

inline Float64Product evaluate_float64(const CsrMatrix& matrix, const Product& operands) {
  Float64Product product{matrix.rows, operands.n, {}, {}};
  product.values.reserve(to_size(matrix.rows * operands.n));
  product.bounds.reserve(to_size(matrix.rows * operands.n));
  float64_check::Float64Row row{std::vector<double>(to_size(operands.n)),
                                std::vector<double>(to_size(operands.n))};
  for (std::int64_t i = 0; i < matrix.rows; ++i) {
    float64_check::evaluate_row(matrix, i, operands, row);
    product.values.insert(product.values.end(), row.values.begin(), row.values.end());
    for (const double absolute : row.absolute) {
      product.bounds.push_back(rounding_bound(float64_check::nnz_of_row(matrix, i), absolute));
    }
  }
  return product;
}

inline ErrorReport compare_with_float64(const CsrMatrix& matrix, const Product& operands) {
  ErrorReport report;
  float64_check::Float64Row expected{std::vector<double>(to_size(operands.n)),
                                     std::vector<double>(to_size(operands.n))};
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    float64_check::evaluate_row(matrix, row, operands, expected);
    const float* c = operands.c + row * operands.ldc;
    const std::int64_t nnz = float64_check::nnz_of_row(matrix, row);
    for (std::int64_t j = 0; j < operands.n; ++j) {
      const float64_check::ElementError element = float64_check::error_of(
          c[j], expected.values[to_size(j)], rounding_bound(nnz, expected.absolute[to_size(j)]));
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

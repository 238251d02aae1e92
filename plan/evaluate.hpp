#pragma once

/// @file
/// What every kernel is tested against: a slow evaluation of the plan that is right bit for bit,
/// and a float64 evaluation with the bound that rounding allows.

#include <cstdint>
#include <vector>

#include "plan/kernel_plan.hpp"
#include "spjit/arguments.hpp"
#include "spjit/matrix.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// How `a * b + c` is rounded.
enum class Arithmetic : std::uint8_t {
  fused,     ///< once: avx512, avx2
  separate,  ///< the product, then the sum: generic
};

[[nodiscard]] Arithmetic arithmetic_of(HostIsa isa) noexcept;

/// c[j] += value * b[j] for j < n, rounded as a kernel rounds it.
using AddScaledRow = void (*)(float value, const float* b, float* c, std::int64_t n);
[[nodiscard]] AddScaledRow add_scaled_row_of(Arithmetic arithmetic) noexcept;

/// C = A * B by walking the plan in its order: tiles, k blocks, columns, entries. Writes the rows
/// that the plan's tiles hold and +0 to its empty rows. Kernels of this plan must give the same
/// bits.
void evaluate(const KernelPlan& plan, Arithmetic arithmetic, const Arguments& operands);

/// C in float64 and how far an fp32 kernel may be from it.
struct Float64Product {
  std::int64_t rows = 0;
  std::int64_t n = 0;
  std::vector<double> values;  ///< [rows x n] row-major, summed in ascending column order
  std::vector<double> bounds;  ///< [rows x n] see rounding_bound()
};

/// Reads b, ldb and n of `operands` only. Memory: 16 bytes an element of C.
[[nodiscard]] Float64Product evaluate_float64(const CsrMatrix& matrix, const Arguments& operands);

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
[[nodiscard]] ErrorReport compare_with_float64(const CsrMatrix& matrix, const Arguments& operands);

}  // namespace spjit

#pragma once

/// @file
/// A kernel's result against a float64 reference.

#include <cstdint>
#include <functional>
#include <string>

#include "buffers.hpp"
#include "spjit/kernel.hpp"
#include "spjit/matrix.hpp"
#include "terminal.hpp"

namespace spjit::cli {

struct Verification {
  std::int64_t rows_checked = 0;
  std::int64_t rows = 0;
  std::int64_t columns_checked = 0;
  std::int64_t columns = 0;
  double max_abs_error = 0;  ///< max |C - reference| over what was checked
  /// max |C - reference| / (gamma * sum |a b|), with gamma = p u / (1 - p u) for p products and
  /// u = 2^-24: the bound on the error of a dot product in any order (Higham, Accuracy and
  /// Stability of Numerical Algorithms, 2nd ed., section 3.1). At most 1 for a kernel that is
  /// right.
  double max_error_over_bound = 0;
  std::string problem;  ///< the first element outside the bound, or not written; or empty

  [[nodiscard]] bool passed() const noexcept { return problem.empty(); }
  [[nodiscard]] bool complete() const noexcept {
    return rows_checked == rows && columns_checked == columns;
  }
};

/// Multiply-adds the reference makes at most, beside those of one row: some 50 ms.
inline constexpr std::int64_t k_most_reference_products = std::int64_t{1} << 25;

/// Runs the kernel once on `operands` and compares. Up to `most_products` everything is checked;
/// past that, columns and rows are sampled at even distances, the first and last and the fullest
/// row always among them. That every element of C was written is checked for all of C.
[[nodiscard]] Verification verify(const SpmmKernel& kernel, const CsrMatrix& matrix,
                                  Operands& operands,
                                  std::int64_t most_products = k_most_reference_products);

/// The same for anything that computes C from B, both in host memory.
using RunKernel = std::function<void(const float* b, float* c)>;
[[nodiscard]] Verification verify(const RunKernel& run, const CsrMatrix& matrix, Operands& operands,
                                  std::int64_t most_products = k_most_reference_products);

[[nodiscard]] Json describe(const Verification& verification);

/// "all of C" or "64 of 33288 rows x 32 of 512 columns".
[[nodiscard]] std::string extent(const Verification& verification);

}  // namespace spjit::cli

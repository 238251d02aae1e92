#pragma once

/// @file
/// Matrices and kernels on which emitted CUDA code is compared with the evaluator bit for bit.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/cuda/emitter_cases.hpp"
#include "tests/support/cuda/emulated_kernel.hpp"
#include "tests/support/float64_check.hpp"

namespace spjit::testing_support {

struct NamedCase {
  std::string name;
  CudaCase item;
};

/// One row and one column each, every kind of float in A; B has some of them too.
[[nodiscard]] inline CudaCase unusual_case() {
  const std::vector<float> values = unusual_values();
  CsrMatrix matrix{static_cast<std::int64_t>(values.size()), 1, {0}, {}, values};
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    matrix.row_ptrs.push_back(row + 1);
    matrix.col_idxs.push_back(0);
  }
  CudaCase item = make_cuda_case(matrix, cuda_spec(8, 7), ReorderAlgorithm::none);
  using Limits = std::numeric_limits<float>;
  item.b = {1.0F, -0.0F, Limits::denorm_min(), Limits::infinity(), -3.0F, Limits::max(), 1e-30F};
  return item;
}

/// A dense row among sparse ones.
[[nodiscard]] inline CsrMatrix with_dense_row(std::int64_t rows, std::int64_t cols) {
  CsrMatrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < cols; ++col) {
      if (row != rows / 2 && col != row % cols) continue;
      matrix.col_idxs.push_back(static_cast<std::int32_t>(col));
      matrix.values.push_back(static_cast<float>(row + 1) / static_cast<float>(col + 3));
    }
    matrix.row_ptrs.push_back(matrix.nnz());
  }
  return matrix;
}

/// The planted edge cases.
[[nodiscard]] inline std::vector<NamedCase> planted_cases() {
  const auto make = [](const CsrMatrix& matrix, std::int64_t m1, std::int64_t n) {
    return make_cuda_case(matrix, cuda_spec(m1, n), ReorderAlgorithm::similarity);
  };
  const CsrMatrix nothing{150, 4, std::vector<std::int64_t>(151, 0), {}, {}};
  const CsrMatrix no_columns{3, 0, {0, 0, 0, 0}, {}, {}};
  std::vector<NamedCase> cases = {
      {"one element", make(random_matrix(1, 1, 0), 1, 1)},
      {"one row", make(random_matrix(1, 50, 0.5), 1, 9)},
      {"one column", make(random_matrix(50, 1, 0.5), 8, 9)},
      {"n = 1", make(random_matrix(40, 30, 0.8), 8, 1)},
      {"n fills the block", make(random_matrix(40, 30, 0.8), 8, 32)},
      {"n is one more than a block", make(random_matrix(40, 30, 0.8), 8, 33)},
      {"no nonzeros", make(nothing, 8, 3)},
      {"no columns", make(no_columns, 2, 3)},
      {"empty rows", make(with_empty_rows(200), 8, 3)},
      {"a dense row", make(with_dense_row(37, 40), 8, 5)},
      {"unusual values", unusual_case()},
      {"an empty row, an empty column", make(small_matrix(), 2, 5)},
  };
  int number = 0;
  for (const ExecutionCase& execution : execution_cases()) {
    cases.push_back({"execution case " + std::to_string(number++),
                     make_cuda_case(execution.matrix, execution.spec, ReorderAlgorithm::balanced)});
  }
  return cases;
}

/// Whether C is within the rounding bound of a float64 product.
[[nodiscard]] inline double error_over_bound(const CsrMatrix& matrix, const CudaCase& item,
                                             std::vector<float> c) {
  const CudaKernelSpec& spec = item.spec;
  return compare_with_float64(matrix, {item.b.data(), spec.ldb, c.data(), spec.ldc, spec.n})
      .max_bound_ratio;
}

}  // namespace spjit::testing_support

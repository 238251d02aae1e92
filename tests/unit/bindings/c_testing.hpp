#pragma once

/// @file
/// Handles of the C interface in tests: owned, and made of C++ values.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "spjit.h"
#include "spjit/matrix.hpp"

namespace spjit::testing_support {

struct DestroyHandle {
  void operator()(spjit_matrix* handle) const { spjit_matrix_destroy(handle); }
  void operator()(spjit_compiler* handle) const { spjit_compiler_destroy(handle); }
  void operator()(spjit_kernel* handle) const { spjit_kernel_destroy(handle); }
  void operator()(spjit_values* handle) const { spjit_values_destroy(handle); }
  void operator()(spjit_cancel* handle) const { spjit_cancel_destroy(handle); }
  void operator()(spjit_recurrent* handle) const { spjit_recurrent_destroy(handle); }
};
using CMatrix = std::unique_ptr<spjit_matrix, DestroyHandle>;
using CCompiler = std::unique_ptr<spjit_compiler, DestroyHandle>;
using CKernel = std::unique_ptr<spjit_kernel, DestroyHandle>;
using CValues = std::unique_ptr<spjit_values, DestroyHandle>;
using CCancel = std::unique_ptr<spjit_cancel, DestroyHandle>;
using CRecurrent = std::unique_ptr<spjit_recurrent, DestroyHandle>;

/// With its size set and everything else 0.
template <class Struct>
[[nodiscard]] Struct sized() {
  Struct made{};
  made.struct_size = sizeof(made);
  return made;
}

/// Borrows.
[[nodiscard]] inline spjit_csr csr_of(const CsrMatrix& matrix) {
  auto csr = sized<spjit_csr>();
  csr.rows = matrix.rows;
  csr.cols = matrix.cols;
  csr.nnz = matrix.nnz();
  csr.row_ptrs = matrix.row_ptrs.data();
  csr.col_idxs = matrix.col_idxs.data();
  csr.values = matrix.values.data();
  csr.row_ptr_type = SPJIT_INT64;
  csr.col_idx_type = SPJIT_INT32;
  return csr;
}

/// Null where it fails, which the test then says.
[[nodiscard]] inline CMatrix matrix_of(const CsrMatrix& matrix) {
  const spjit_csr csr = csr_of(matrix);
  spjit_matrix* made = nullptr;
  EXPECT_EQ(spjit_matrix_from_csr(&csr, &made), SPJIT_OK) << spjit_last_error();
  return CMatrix(made);
}

/// Without a cache, unless the options say otherwise.
[[nodiscard]] inline CCompiler compiler_of(
    spjit_compiler_options options = sized<spjit_compiler_options>()) {
  if (options.cache_directory == nullptr) options.no_cache = 1;
  spjit_compiler* made = nullptr;
  EXPECT_EQ(spjit_compiler_create(&options, &made), SPJIT_OK) << spjit_last_error();
  return CCompiler(made);
}

[[nodiscard]] inline CKernel kernel_of(const spjit_compiler* compiler, const spjit_matrix* matrix,
                                       const spjit_problem& problem) {
  spjit_kernel* made = nullptr;
  EXPECT_EQ(spjit_compile(compiler, matrix, &problem, nullptr, &made), SPJIT_OK)
      << spjit_last_error();
  return CKernel(made);
}

/// With n columns.
[[nodiscard]] inline spjit_problem problem_of(std::int64_t n) {
  auto problem = sized<spjit_problem>();
  problem.n = n;
  return problem;
}

/// The call failed with that status, and the message has the text.
inline void expect_error(int status, int expected, const std::string& text) {
  EXPECT_EQ(status, expected) << spjit_status_name(status) << ": " << spjit_last_error();
  EXPECT_NE(std::string(spjit_last_error()).find(text), std::string::npos)
      << "got \"" << spjit_last_error() << "\", expected \"" << text << "\" in it";
}

}  // namespace spjit::testing_support

// Matrices of the C interface.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "bindings/c/guard.hpp"
#include "bindings/c/handles.hpp"
#include "matrix/limits.hpp"
#include "spjit/matrix_io.hpp"
#include "spjit/model_io.hpp"
#include "spjit/quantize.hpp"

namespace spjit::c {
namespace {

/// Calls `use` with a pointer to indices of the type that a caller says.
template <class Use>
void with_indices(const void* indices, std::int32_t type, const char* name, const Use& use) {
  if (type == SPJIT_INT32) {
    use(static_cast<const std::int32_t*>(indices));
  } else if (type == SPJIT_INT64) {
    use(static_cast<const std::int64_t*>(indices));
  } else {
    throw InvalidArgument(
        fmt::format("{} is {}; expected SPJIT_INT32 (1) or SPJIT_INT64 (2)", name, type));
  }
}

void check_count(std::int64_t count, const char* name, std::int64_t most) {
  if (count >= 0 && count <= most) return;
  throw InvalidArgument(fmt::format("{} is {}; expected 0 to {}", name, count, most));
}

std::int32_t checked_column(std::int64_t column, std::int64_t entry) {
  if (column >= 0 && column <= k_max_dimension) return static_cast<std::int32_t>(column);
  throw InvalidMatrix(
      fmt::format("entry {} is in column {}; expected 0 to {}", entry, column, k_max_dimension));
}

/// The offsets end where the other arrays do.
void check_offsets_end(const CsrMatrix& matrix, std::int64_t nnz) {
  if (matrix.row_ptrs.back() == nnz) return;
  throw InvalidMatrix(
      fmt::format("row_ptrs ends with {}; expected nnz, {}", matrix.row_ptrs.back(), nnz));
}

CsrMatrix matrix_of(const spjit_csr& csr) {
  check_count(csr.rows, "rows", k_max_dimension);
  check_count(csr.cols, "cols", k_max_dimension);
  // What arrays of so many entries would take has to be there already.
  check_count(csr.nnz, "nnz", memory_bytes() / std::int64_t{sizeof(float)});
  require(csr.row_ptrs, "row_ptrs");
  if (csr.nnz > 0) require(csr.col_idxs, "col_idxs");
  if (csr.nnz > 0) require(csr.values, "values");
  CsrMatrix matrix;
  matrix.rows = csr.rows;
  matrix.cols = csr.cols;
  with_indices(csr.row_ptrs, csr.row_ptr_type, "row_ptr_type",
               [&](const auto* ptrs) { matrix.row_ptrs.assign(ptrs, ptrs + csr.rows + 1); });
  check_offsets_end(matrix, csr.nnz);
  with_indices(csr.col_idxs, csr.col_idx_type, "col_idx_type", [&](const auto* columns) {
    matrix.col_idxs.reserve(static_cast<std::size_t>(csr.nnz));
    for (std::int64_t i = 0; i < csr.nnz; ++i) {
      matrix.col_idxs.push_back(checked_column(columns[i], i));
    }
  });
  matrix.values.assign(csr.values, csr.values + csr.nnz);
  matrix.validate();
  matrix.sort_columns();
  return matrix;
}

}  // namespace
}  // namespace spjit::c

using namespace spjit::c;

int spjit_matrix_from_csr(const spjit_csr* csr, spjit_matrix** matrix) {
  return guarded([&] {
    spjit_matrix*& result = result_of(matrix, "matrix");
    result = new spjit_matrix{matrix_of(checked_struct(csr, "spjit_csr"))};
  });
}

int spjit_matrix_from_dense(const float* dense, int64_t rows, int64_t cols, spjit_matrix** matrix) {
  return guarded([&] {
    spjit_matrix*& result = result_of(matrix, "matrix");
    result = new spjit_matrix{spjit::csr_from_dense(dense, rows, cols)};
  });
}

int spjit_matrix_load(const char* path, spjit_matrix** matrix) {
  return guarded([&] {
    spjit_matrix*& result = result_of(matrix, "matrix");
    require_path(path, "path");
    result = new spjit_matrix{spjit::load_matrix(path)};
  });
}

int spjit_matrix_load_weights(const char* path, const char* name, spjit_matrix** matrix) {
  return guarded([&] {
    spjit_matrix*& result = result_of(matrix, "matrix");
    require_path(path, "path");
    require(name, "name");
    result = new spjit_matrix{spjit::load_weights(path, name)};
  });
}

int spjit_matrix_load_weight_scale(const char* path, const char* name, float* scale, int64_t rows) {
  return guarded([&] {
    require_path(path, "path");
    require(name, "name");
    const std::vector<float> factors = spjit::load_weight_scale(path, name);
    if (rows < 0 || (!factors.empty() && std::ssize(factors) != rows)) {
      throw spjit::InvalidArgument(
          fmt::format("rows is {}; expected those of the weights{}", rows,
                      factors.empty() ? "" : fmt::format(", {}", factors.size())));
    }
    if (rows > 0) require(scale, "scale");
    std::fill_n(scale, rows, 1.0F);
    std::ranges::copy(factors, scale);
  });
}

int spjit_matrix_quantize(const spjit_matrix* matrix, spjit_matrix** integers, float* scale,
                          double* cosine, double* relative_error) {
  return guarded([&] {
    spjit_matrix*& result = result_of(integers, "integers");
    require(matrix, "matrix");
    if (matrix->matrix->rows > 0) require(scale, "scale");
    spjit::QuantizedMatrix quantized = spjit::quantize_rows(*matrix->matrix);
    result = new spjit_matrix{std::move(quantized.integers)};
    std::ranges::copy(quantized.scale, scale);
    if (cosine != nullptr) *cosine = quantized.cosine;
    if (relative_error != nullptr) *relative_error = quantized.relative_error;
  });
}

int spjit_matrix_copy(const spjit_matrix* matrix, int64_t* row_ptrs, int32_t* col_idxs,
                      float* values) {
  return guarded([&] {
    require(matrix, "matrix");
    const spjit::CsrMatrix& from = *matrix->matrix;
    if (row_ptrs != nullptr) std::ranges::copy(from.row_ptrs, row_ptrs);
    if (col_idxs != nullptr) std::ranges::copy(from.col_idxs, col_idxs);
    if (values != nullptr) std::ranges::copy(from.values, values);
  });
}

int64_t spjit_matrix_rows(const spjit_matrix* matrix) {
  return matrix == nullptr ? -1 : matrix->matrix->rows;
}

int64_t spjit_matrix_cols(const spjit_matrix* matrix) {
  return matrix == nullptr ? -1 : matrix->matrix->cols;
}

int64_t spjit_matrix_nnz(const spjit_matrix* matrix) {
  return matrix == nullptr ? -1 : matrix->matrix->nnz();
}

void spjit_matrix_destroy(spjit_matrix* matrix) { delete matrix; }

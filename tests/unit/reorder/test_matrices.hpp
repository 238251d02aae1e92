#pragma once

/// @file
/// Matrices for the reorder tests.

#include <cstdint>
#include <string>
#include <vector>

#include "spjit/generate.hpp"
#include "spjit/matrix.hpp"

namespace spjit::reorder_test {

/// A `[rows.size() x cols]` matrix of ones with these columns in each row.
inline CsrMatrix make_matrix(const std::vector<std::vector<std::int32_t>>& rows,
                             std::int64_t cols) {
  CsrMatrix matrix;
  matrix.rows = static_cast<std::int64_t>(rows.size());
  matrix.cols = cols;
  for (const auto& row : rows) {
    matrix.col_idxs.insert(matrix.col_idxs.end(), row.begin(), row.end());
    matrix.row_ptrs.push_back(matrix.nnz());
  }
  matrix.values.assign(matrix.col_idxs.size(), 1.0F);
  return matrix;
}

/// The matrix with row 1 emptied and row `rows / 2` made dense.
inline CsrMatrix plant_empty_and_dense_row(const CsrMatrix& matrix) {
  std::vector<std::vector<std::int32_t>> rows;
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    const auto place = matrix.row_ptrs.begin() + row;
    rows.emplace_back(matrix.col_idxs.begin() + place[0], matrix.col_idxs.begin() + place[1]);
  }
  rows.at(1).clear();
  auto& dense = rows.at(rows.size() / 2);
  dense.clear();
  for (std::int32_t column = 0; column < matrix.cols; ++column) dense.push_back(column);
  return make_matrix(rows, matrix.cols);
}

struct NamedMatrix {
  std::string name;
  CsrMatrix matrix;
};

/// Every generator pattern at several sizes and sparsities, with an empty and a dense row planted.
inline std::vector<NamedMatrix> random_matrices() {
  std::vector<NamedMatrix> matrices;
  std::uint64_t seed = 1;
  for (const auto pattern :
       {MatrixPattern::uniform, MatrixPattern::uneven_rows, MatrixPattern::blocks,
        MatrixPattern::power_law, MatrixPattern::banded}) {
    for (const double sparsity : {0.5, 0.9, 0.97}) {
      GenerateOptions options;
      options.rows = 61;
      options.cols = 40;
      options.sparsity = sparsity;
      options.pattern = pattern;
      options.seed = seed++;
      matrices.push_back({std::string(to_string(pattern)) + " " + std::to_string(sparsity),
                          plant_empty_and_dense_row(generate_matrix(options))});
    }
  }
  return matrices;
}

}  // namespace spjit::reorder_test

#pragma once

/// @file
/// Weights and geometries on which kernels of convolutions are compared.

#include <cstdint>
#include <vector>

#include "spjit/problem.hpp"
#include "tests/support/padded_3x3.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit::testing_support {

/// With filters without entries, with all, and of one.
[[nodiscard]] inline CsrMatrix planted_filters(std::int64_t filters, std::int64_t columns,
                                               std::int64_t percent) {
  CsrMatrix matrix;
  matrix.rows = filters;
  matrix.cols = columns;
  const std::vector<float> values = dense_values(filters * columns, 5);
  for (std::int64_t row = 0; row < filters; ++row) {
    for (std::int64_t col = 0; col < columns; ++col) {
      const bool is_entry = row % 7 == 2   ? false
                            : row % 7 == 3 ? true
                            : row % 7 == 4 ? col == row % columns
                                           : (row * 31 + col * 17) % 100 < percent;
      if (!is_entry) continue;
      matrix.col_idxs.push_back(static_cast<std::int32_t>(col));
      matrix.values.push_back(values[index(row * columns + col)]);
    }
    matrix.row_ptrs.push_back(matrix.nnz());
  }
  return matrix;
}

[[nodiscard]] inline Problem problem_of_convolution(const Convolution& of, std::int64_t filters,
                                                    std::int64_t percent = 80) {
  Problem problem;
  problem.operation = Operation::conv2d;
  problem.a = planted_filters(filters, of.channels / of.groups * of.kernel_height * of.kernel_width,
                              percent);
  problem.convolution = of;
  return problem;
}

/// Kernels, strides, padding and dilation; nothing a multiple of anything.
[[nodiscard]] inline std::vector<Convolution> geometries() {
  std::vector<Convolution> all = {
      padded_3x3(5, 9, 11),
      {.channels = 3,
       .height = 20,
       .width = 23,
       .kernel_height = 7,
       .kernel_width = 7,
       .stride_height = 2,
       .stride_width = 2,
       .pad_top = 3,
       .pad_left = 3,
       .pad_bottom = 3,
       .pad_right = 3},
      // One tap, and still no plain product.
      {.channels = 7, .height = 8, .width = 9, .stride_height = 2, .stride_width = 2},
      {.channels = 4, .height = 5, .width = 6, .pad_top = 1, .pad_left = 2},
      // Unequal everything.
      {.channels = 2,
       .height = 13,
       .width = 10,
       .kernel_height = 2,
       .kernel_width = 5,
       .stride_height = 3,
       .stride_width = 1,
       .pad_top = 0,
       .pad_left = 4,
       .pad_bottom = 2,
       .pad_right = 1,
       .dilation_height = 2,
       .dilation_width = 3},
      // Stride over dilation, and steps that no tap has.
      {.channels = 3,
       .height = 17,
       .width = 19,
       .kernel_height = 2,
       .kernel_width = 3,
       .stride_height = 5,
       .stride_width = 4,
       .dilation_height = 3,
       .dilation_width = 2},
      // Padding larger than the kernel.
      {.channels = 2,
       .height = 3,
       .width = 4,
       .kernel_height = 2,
       .kernel_width = 2,
       .pad_top = 5,
       .pad_left = 4,
       .pad_bottom = 3,
       .pad_right = 6},
      // A kernel larger than the image.
      {.channels = 2,
       .height = 2,
       .width = 3,
       .kernel_height = 5,
       .kernel_width = 7,
       .pad_top = 2,
       .pad_left = 3,
       .pad_bottom = 2,
       .pad_right = 3},
      // Images of one pixel.
      padded_3x3(6, 1, 1),
      {.channels = 6, .height = 1, .width = 1},
      // A row, and a column, of more pixels than are computed at once.
      {.channels = 2, .height = 1, .width = 700, .kernel_width = 3, .pad_left = 1, .pad_right = 1},
      {.channels = 2, .height = 700, .width = 1, .kernel_height = 3, .pad_top = 1, .pad_bottom = 1},
      // Groups, and one for each channel.
      {.channels = 6,
       .height = 7,
       .width = 7,
       .kernel_height = 3,
       .kernel_width = 3,
       .pad_top = 1,
       .pad_left = 1,
       .pad_bottom = 1,
       .pad_right = 1,
       .groups = 2},
      {.channels = 16,
       .height = 7,
       .width = 9,
       .kernel_height = 3,
       .kernel_width = 3,
       .stride_height = 2,
       .stride_width = 2,
       .pad_top = 1,
       .pad_left = 1,
       .pad_bottom = 1,
       .pad_right = 1,
       .groups = 16},
      {.channels = 4, .height = 6, .width = 5, .groups = 2},
      // More than two groups of columns.
      padded_3x3(3, 30, 31),
  };
  return all;
}

}  // namespace spjit::testing_support

#pragma once

/// @file
/// Cases that both CUDA emitters are tested with.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/cuda/unrolled/cuda_tile.hpp"
#include "plan/kernel_plan.hpp"
#include "tests/support/cuda/emitted_text.hpp"
#include "tests/support/evaluate.hpp"
#include "tests/support/spmm_testing.hpp"

namespace spjit::testing_support {

[[nodiscard]] inline KernelPlan cuda_plan(const CsrMatrix& matrix, std::int64_t m1) {
  return build_plan(matrix, group_rows(matrix, m1, ReorderAlgorithm::balanced),
                    std::max<std::int64_t>(matrix.cols, 1));
}

[[nodiscard]] inline CudaKernelSpec cuda_spec(std::int64_t m1, std::int64_t n) {
  CudaKernelSpec spec;
  spec.tile.m1 = m1;
  spec.tile.n1 = 32;
  spec.n = n;
  spec.ldb = n;
  spec.ldc = n;
  return spec;
}

/// Every kind of float: signs, zeros, subnormals, extremes, infinities, NaNs with payloads.
[[nodiscard]] inline std::vector<float> unusual_values() {
  using Limits = std::numeric_limits<float>;
  std::vector<float> values = {0.0F,
                               -0.0F,
                               1.0F,
                               -1.5F,
                               0.1F,
                               1.0F / 3,
                               Limits::max(),
                               Limits::lowest(),
                               Limits::min(),
                               Limits::denorm_min(),
                               -Limits::denorm_min(),
                               Limits::epsilon(),
                               Limits::infinity(),
                               -Limits::infinity()};
  for (const std::uint32_t bits :
       {0x007FFFFFU, 0x807FFFFFU, 0x00000123U, 0x7FC00000U, 0x7FC12345U, 0xFFFFFFFFU, 0x7F800001U,
        0x3F800001U, 0x3F7FFFFFU, 0x00800001U}) {
    values.push_back(std::bit_cast<float>(bits));
  }
  return values;
}

/// Rows without entries among others; more of them than one function writes.
[[nodiscard]] inline CsrMatrix with_empty_rows(std::int64_t rows) {
  CsrMatrix matrix;
  matrix.rows = rows;
  matrix.cols = 6;
  for (std::int64_t row = 0; row < rows; ++row) {
    if (row % 3 == 1) {
      matrix.col_idxs.push_back(static_cast<std::int32_t>(row % 6));
      matrix.values.push_back(static_cast<float>(row));
    }
    matrix.row_ptrs.push_back(matrix.nnz());
  }
  return matrix;
}

/// A's values as a kernel that takes them at run time reads them: tile after tile, each filled up
/// with zeros to whole loads.
[[nodiscard]] inline std::vector<float> values_in_order(const KernelPlan& plan) {
  std::vector<float> stream;
  for (std::int64_t tile = 0; tile < plan.grouping.tiles(); ++tile) {
    const PlanSegment segment = plan.segment(tile, 0);
    for (std::int64_t e = plan.entry_ptrs[index(segment.column_begin)];
         e < plan.entry_ptrs[index(segment.column_end)]; ++e) {
      stream.push_back(plan.entry_values[index(e)]);
    }
    while (stream.size() % 4 != 0) stream.push_back(0);
  }
  return stream;
}

struct ExecutionCase {
  CsrMatrix matrix;
  CudaKernelSpec spec;
};

/// Shapes, unit sizes, leading dimensions, and a B beyond the reach of offsets.
[[nodiscard]] inline std::vector<ExecutionCase> execution_cases() {
  std::vector<ExecutionCase> cases;
  std::uint64_t seed = 1;
  for (const bool runtime : {false, true}) {
    for (const std::int64_t unit : {1, 50, 100000}) {
      CudaKernelSpec spec = cuda_spec(7, 5);
      spec.ldb = 9;
      spec.ldc = 6;
      spec.tile.runtime_sizes = runtime;
      spec.tile.unit_nonzeros = unit;
      cases.push_back({random_matrix(33, 40, 0.8, seed++), spec});
      cases.push_back({with_empty_rows(200), spec});
    }
  }
  CudaKernelSpec far = cuda_spec(2, 3);
  far.ldb = 1 << 18;
  far.ldc = 1 << 18;
  cases.push_back({random_matrix(20, 21, 0.3), far});
  return cases;
}

/// Whether the text, executed, gives the evaluator's bits and writes each element once.
[[nodiscard]] inline bool executes_as_evaluated(const std::vector<SourceUnit>& units,
                                                const KernelPlan& plan,
                                                const CudaKernelSpec& spec) {
  const std::vector<float> b = dense_values(plan.cols * spec.ldb, 11);
  std::vector<float> actual(index(plan.rows * spec.ldc), -7.0F);
  std::vector<float> expected = actual;
  evaluate(plan, Arithmetic::fused, {b.data(), spec.ldb, expected.data(), spec.ldc, spec.n});

  const std::vector<int> writes = execute_emitted(
      read_emitted(units), plan.rows, {b.data(), spec.ldb, actual.data(), spec.ldc, spec.n});

  return same_bits(actual, expected) && std::ranges::all_of(writes, [](int n) { return n == 1; });
}

}  // namespace spjit::testing_support

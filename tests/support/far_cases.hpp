#pragma once

/// @file
/// Kernels whose rows of B and C lie gigabytes apart, of which they touch a few: run on the
/// emulated driver, whose memory takes only what is written.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/cuda/emitter_cases.hpp"
#include "tests/support/cuda/emulated_kernel.hpp"

namespace spjit::testing_support {

/// A small matrix, and the columns and rows of a large one that its own stand for.
struct FarCase {
  std::string name;
  CsrMatrix matrix;
  CudaKernelSpec spec;
  std::vector<std::int32_t> columns;  ///< [matrix.cols] ascending
  std::vector<std::int32_t> rows;     ///< [matrix.rows] ascending
};

inline void renumber(std::vector<std::int32_t>& numbers, const std::vector<std::int32_t>& names) {
  for (std::int32_t& number : numbers) number = names[index(number)];
}

[[nodiscard]] inline RowRanges renumbered(const RowRanges& rows,
                                          const std::vector<std::int32_t>& names) {
  RowRanges result;
  for (const std::int32_t row : rows.list(0, rows.count())) {
    result.add(names[index(row)], names[index(row)] + std::int64_t{1});
  }
  return result;
}

/// The plan of the small matrix.
[[nodiscard]] inline KernelPlan near_plan(const FarCase& far) {
  return cuda_plan(far.matrix, far.spec.tile.m1);
}

/// As near_plan(), with the numbers of the large matrix. Rows that the small one does not have are
/// no one's to write.
[[nodiscard]] inline KernelPlan far_plan(const FarCase& far) {
  KernelPlan plan = near_plan(far);
  plan.cols = far.columns.back() + std::int64_t{1};
  plan.rows = far.rows.back() + std::int64_t{1};
  plan.k_block = plan.cols;
  renumber(plan.columns, far.columns);
  renumber(plan.grouping.rows, far.rows);
  plan.grouping.empty_rows = renumbered(plan.grouping.empty_rows, far.rows);
  return plan;
}

/// The first four, of which the last is beyond 2^32 floats at the largest leading dimension.
[[nodiscard]] inline std::vector<std::int32_t> first_numbers() { return {0, 1, 2, 5}; }

/// Both sides of 2^31 and of 2^32 bytes at 64 bytes a row, and one beyond 2^32 floats.
[[nodiscard]] inline std::vector<std::int32_t> far_numbers() {
  return {0, 1, 131071, 131072, 33554431, 33554432, 67108863, 67108864, 67108865, 300000000};
}

/// A distance between rows of 2^31 bytes, one of the most that there may be (2^32 - 4), and rows of
/// which there are many; of B, of C, and of both.
[[nodiscard]] inline std::vector<FarCase> far_cases() {
  constexpr std::int64_t k_n = 5;
  constexpr std::int64_t k_near = 16;
  const CsrMatrix matrix = random_matrix(10, 10, 0.5);
  const CsrMatrix short_matrix = random_matrix(4, 4, 0.3);
  CsrMatrix gaps = with_empty_rows(10);
  gaps.cols = 10;
  std::vector<FarCase> cases;
  const auto add = [&](const std::string& name, const CsrMatrix& a, std::int64_t ldb,
                       std::int64_t ldc) {
    CudaKernelSpec spec = cuda_spec(3, k_n);
    spec.ldb = ldb;
    spec.ldc = ldc;
    const bool many_columns = a.cols == 10 && ldb == k_near;
    const bool many_rows = a.rows == 10 && ldc == k_near;
    cases.push_back({name, a, spec, many_columns ? far_numbers() : first_numbers(),
                     many_rows ? far_numbers() : first_numbers()});
  };
  for (const std::int64_t ld : {std::int64_t{1} << 29, k_cuda_max_leading_dimension}) {
    const std::string distance = std::to_string(ld * 4) + " bytes";
    add("rows of B " + distance + " apart", short_matrix, ld, k_near);
    add("rows of C " + distance + " apart", short_matrix, k_near, ld);
    add("rows of both " + distance + " apart", short_matrix, ld, ld);
  }
  add("many rows of both", matrix, k_near, k_near);
  add("empty rows among many", gaps, k_near, k_near);
  return cases;
}

/// Every case with its sizes in the code and as parameters, in one unit and in several.
[[nodiscard]] inline std::vector<FarCase> far_cases_in_all_forms() {
  std::vector<FarCase> cases;
  for (FarCase far : far_cases()) {
    for (const bool runtime_sizes : {false, true}) {
      for (const std::int64_t unit_nonzeros : {8, 100'000}) {
        far.spec.tile.runtime_sizes = runtime_sizes;
        far.spec.tile.unit_nonzeros = unit_nonzeros;
        cases.push_back(far);
      }
    }
  }
  return cases;
}

/// Rows of a far matrix of floats in device memory.
class FarRows {
 public:
  FarRows(const CudaContext& context, const std::vector<std::int32_t>& rows, std::int64_t n,
          std::int64_t ld)
      : rows_(rows),
        n_(n),
        ld_(ld),
        buffer_(context, index(extent_of(rows.back() + std::int64_t{1}, n, ld)) * sizeof(float)) {}

  /// From contiguous rows, as many as there are.
  void upload(const std::vector<float>& near) {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      buffer_.upload(std::as_bytes(std::span(near).subspan(i * index(n_), index(n_))), at(i));
    }
  }

  /// To contiguous rows. What nothing wrote is a NaN.
  [[nodiscard]] std::vector<float> download() const {
    std::vector<float> near(rows_.size() * index(n_));
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      buffer_.download(std::as_writable_bytes(std::span(near).subspan(i * index(n_), index(n_))),
                       at(i));
    }
    return near;
  }

  [[nodiscard]] CudaAddress address() const { return buffer_.address(); }
  [[nodiscard]] void* pointer() const { return buffer_.pointer(); }

 private:
  [[nodiscard]] std::size_t at(std::size_t i) const {
    return index(rows_[i]) * index(ld_) * sizeof(float);
  }

  std::vector<std::int32_t> rows_;
  std::int64_t n_;
  std::int64_t ld_;
  DeviceBuffer buffer_;
};

/// B of the rows that a far case reads, contiguous.
[[nodiscard]] inline std::vector<float> near_b(const FarCase& far) {
  return dense_values(far.matrix.cols * far.spec.n, 5);
}

/// C of the rows that it writes, contiguous.
[[nodiscard]] inline std::vector<float> near_c(const FarCase& far) {
  const std::vector<float> b = near_b(far);
  std::vector<float> c(index(far.matrix.rows * far.spec.n));
  const std::int64_t n = far.spec.n;
  evaluate(near_plan(far), Arithmetic::fused, {b.data(), n, c.data(), n, n});
  return c;
}

/// Rows of C after a launch of the kernel. One that reads or writes elsewhere throws DeviceError.
[[nodiscard]] inline std::vector<float> run_far(const CudaFunction& function, const FarCase& far) {
  const CudaContext& context = function.context();
  const CudaKernelSpec& spec = far.spec;
  FarRows b(context, far.columns, spec.n, spec.ldb);
  const FarRows c(context, far.rows, spec.n, spec.ldc);
  b.upload(near_b(far));
  CudaParameters parameters({.b = {static_cast<const float*>(b.pointer()), {.ld = spec.ldb}},
                             .c = {static_cast<float*>(c.pointer()), {.ld = spec.ldc}},
                             .n = spec.n});
  function.launch(shape_of(far_plan(far), spec), nullptr, parameters.places());
  context.synchronize();
  return c.download();
}

[[nodiscard]] inline std::vector<float> run_far_ptx(const std::string& ptx, const FarCase& far) {
  return run_far(load_ptx(emulated_context(), ptx), far);
}

}  // namespace spjit::testing_support

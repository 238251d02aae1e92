#pragma once

/// @file
/// Whether something that computes a layer does, against float64.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/cancel.hpp"
#include "compiler/layer_reference.hpp"
#include "plan/operation.hpp"
#include "spjit/arguments.hpp"
#include "spjit/epilogue.hpp"
#include "spjit/matrix.hpp"
#include "spjit/problem.hpp"

namespace spjit {

/// Most bytes that a check may take on a machine with this much memory: 8 GB, and half of it at
/// most. Counted are the rows of B that are read, the residual, and C of every run.
[[nodiscard]] double most_check_bytes(double memory_bytes) noexcept;

/// B is pattern_value() of this seed, by row and column; scale is that of the next seed, by row and
/// column 0. Bias and residual are four times those of the two after that. As bf16 and f16 they are
/// rounded; as integers they are spread over the range of their type, up to 2^20. Where C has a
/// narrow range, scale (without one, an integer B) is made smaller, so that few sums leave it.
inline constexpr std::uint64_t k_check_seed = 20240229;

/// The scale of a B that is given as bytes (Quantization::given), and the zero point of bytes.
inline constexpr float k_check_b_scale = 0x1.91p-8F;
[[nodiscard]] constexpr std::int32_t check_zero_point(DataType type) noexcept {
  return type == DataType::u8 ? 131 : -7;
}

/// The scale of a C of bytes, whose zero point check_zero_point() gives.
inline constexpr float k_check_c_scale = 0x1.6bp-1F;

/// A run of the kernel.
struct CheckRun {
  std::int64_t n = 0;
  /// With their leading dimensions, but for panels.
  DenseFormat b = {};
  DenseFormat c = {};
  /// Leading dimension of the residual, if there is one; 0: it is in C itself.
  std::int64_t ldr = 0;
  /// With the height and width of this run; n are the pixels of its output.
  std::optional<Convolution> convolution = {};

  [[nodiscard]] const OperationRules& rules() const { return rules_of(convolution); }
  /// With an A of so many columns.
  [[nodiscard]] OperationSizes sizes(std::int64_t cols) const noexcept {
    return sizes_of(cols, n, convolution);
  }
};

/// Anything that computes C from B, scale, bias and residual, all in host memory.
using RunKernel = std::function<void(const Arguments& operands)>;

/// A kernel that is checked.
struct CheckedKernel {
  const CsrMatrix& matrix;
  std::vector<CheckRun> runs = {};  ///< the first as compiled; those with one n in a row
  RunKernel run = {};
  Epilogue epilogue = {};
  Numerics numerics = {};
  GroupScalesView groups = {};
  std::int64_t panel_columns = 0;  ///< of panel-major B and C

  /// Bytes of the rows of B that are read, of the residual and of C of every run. Throws what
  /// `cancel` throws.
  [[nodiscard]] double bytes(const Cancellation& cancel = {}) const;
};

/// Runs the kernel on a B in [-1, 1) and into a C of guards. Looks at all of C for
/// - elements that were not written: of integers, that differ where a second run has other guards
/// - elements that are NaN though A is finite
/// - elements that are not +0 in a row of A without entries, if there is no epilogue
/// - panels that are not zero past the last column, if A is finite
/// - guards that were written over
///
/// Then compares a sample of the elements with float64 (compare_layer()). Of B, or X, only blocks
/// of rows are filled in that A reads from.
/// rows_checked and columns_checked are of the first run. Throws what the kernel and `cancel`
/// throw, and std::bad_alloc.
[[nodiscard]] CheckResult check_kernel(const CheckedKernel& kernel,
                                       const CheckOptions& options = {});

}  // namespace spjit

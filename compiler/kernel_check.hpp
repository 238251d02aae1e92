#pragma once

/// @file
/// Whether something that computes a layer does, against float64.

#include <cstdint>
#include <functional>
#include <vector>

#include "base/cancel.hpp"
#include "compiler/guarded_rows.hpp"
#include "compiler/layer_reference.hpp"
#include "spjit/arguments.hpp"
#include "spjit/epilogue.hpp"
#include "spjit/layout.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// What the rows of B that are read, and C in every layout, may take together on a machine with
/// this much memory: 8 GB, and half of it at most.
[[nodiscard]] double most_check_bytes(double memory_bytes) noexcept;

/// B is pattern_value() of this seed.
inline constexpr std::uint64_t k_check_seed = 20240229;

/// Leading dimensions of B and C in a run, of which panels have none.
struct CheckLayout {
  std::int64_t ldb = 0;
  std::int64_t ldc = 0;
};

/// Anything that computes C from operands in host memory. It is given all that the layer has.
using RunKernel = std::function<void(const Arguments& operands)>;

/// What is checked.
struct CheckedKernel {
  const CsrMatrix& matrix;
  std::int64_t n = 0;
  std::vector<CheckLayout> layouts = {};  ///< a run in each; ldb ascending
  RunKernel run = {};
  Layout b_layout = Layout::row_major;
  Layout c_layout = Layout::row_major;  ///< of the residual too
  std::int64_t panel_columns = 1;       ///< of panels
  Epilogue epilogue = {};

  /// How B and C of a run lie.
  [[nodiscard]] Operand b(const CheckLayout& layout) const noexcept;
  [[nodiscard]] Operand c(const CheckLayout& layout) const noexcept;

  /// What B (of a row-major one the rows that are read), the residual and the C of every layout
  /// take. Throws what `cancel` throws.
  [[nodiscard]] double bytes(const Cancellation& cancel = {}) const;
};

/// Runs the kernel with each of the leading dimensions on operands in [-1, 1) and into a C of
/// guards, and looks at all of C for elements that were not written, that are NaN though A is
/// finite, that are not +0 in a row of A without entries or, if A is finite, past the columns of a
/// panel, and for guards that were written over; then compares a sample of the elements with
/// float64, and where there is an epilogue all rows without entries. Of a row-major B only blocks
/// of rows are filled in that A reads from. Throws what the kernel and `cancel` throw, and
/// std::bad_alloc.
[[nodiscard]] CheckResult check_kernel(const CheckedKernel& kernel,
                                       const CheckOptions& options = {});

}  // namespace spjit

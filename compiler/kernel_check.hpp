#pragma once

/// @file
/// Whether something that computes C = A * B does, against float64.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.hpp"
#include "base/float_buffer.hpp"
#include "base/row_ranges.hpp"
#include "compiler/float64_reference.hpp"
#include "spjit/arguments.hpp"
#include "spjit/matrix.hpp"

namespace spjit {

/// Multiply-adds the reference makes at most in mode `sampled`, beside those of one row: some
/// 50 ms.
inline constexpr std::int64_t k_most_reference_products = std::int64_t{1} << 25;

/// What the rows of B that are read, and C in every layout, may take together on a machine with
/// this much memory: 8 GB, and half of it at most.
[[nodiscard]] double most_check_bytes(double memory_bytes) noexcept;

/// B is pattern_value() of this seed.
inline constexpr std::uint64_t k_check_seed = 20240229;

/// Rows of floats in a buffer. Around and between the rows that are used every float is a guard.
/// The guards are signalling NaN, which no arithmetic ever gives: what is not written stays one,
/// and what reads one spoils a sum. Rows that are not used take no memory.
class GuardedRows {
 public:
  /// `rows` rows of n floats, ld apart, none of those in `used` written. Throws what `pace` throws,
  /// std::bad_alloc, and InvalidArgument if there are too many floats to count.
  GuardedRows(std::int64_t rows, std::int64_t n, std::int64_t ld, const RowRanges& used,
              CancelPace& pace);

  [[nodiscard]] std::int64_t n() const noexcept { return n_; }
  [[nodiscard]] std::int64_t ld() const noexcept { return ld_; }
  [[nodiscard]] float* row(std::int64_t row) const noexcept;

  /// Where a guard was written over: "behind row 3"; empty if none was. Every row must be used.
  [[nodiscard]] std::string touched(CancelPace& pace) const;

  /// Bytes that so many used rows take.
  [[nodiscard]] static double bytes(std::int64_t rows, std::int64_t ld) noexcept;

 private:
  std::int64_t rows_;
  std::int64_t n_;
  std::int64_t ld_;
  FloatBuffer floats_;
};

/// Whether the float is a guard, or an element that was never written.
[[nodiscard]] bool is_unwritten(float value) noexcept;

/// How B and C lie in a run; each ld >= n.
struct CheckLayout {
  std::int64_t ldb = 0;
  std::int64_t ldc = 0;
};

/// Anything that computes C from B, both in host memory.
using RunKernel = std::function<void(const Arguments& operands)>;

/// What is checked.
struct CheckedKernel {
  const CsrMatrix& matrix;
  std::int64_t n = 0;
  std::vector<CheckLayout> layouts = {};  ///< a run in each; ldb ascending
  RunKernel run = {};

  /// What the rows of B that are read and the C of every layout take. Throws what `cancel` throws.
  [[nodiscard]] double bytes(const Cancellation& cancel = {}) const;
};

struct CheckOptions {
  /// Multiply-adds of the reference; without it all of C is compared.
  std::optional<std::int64_t> most_products = k_most_reference_products;
  Cancellation cancel = {};
};

struct CheckResult {
  std::int64_t rows_checked = 0;
  std::int64_t columns_checked = 0;
  double max_abs_error = 0;         ///< max |C - reference| over what was compared
  double max_error_over_bound = 0;  ///< infinite for what is hopeless
  std::string problem = {};         ///< the first thing that is wrong, or empty

  [[nodiscard]] bool passed() const noexcept { return problem.empty(); }
};

/// Runs the kernel in each layout on a B in [-1, 1) and into a C of guards, and looks at all of C
/// for elements that were not written, that are NaN though A is finite, that are not +0 in a row of
/// A without entries, and for guards that were written over; then compares a sample of the elements
/// with float64. Of B only blocks of rows are filled in that A reads from. Throws what the kernel
/// and `cancel` throw, and std::bad_alloc.
[[nodiscard]] CheckResult check_kernel(const CheckedKernel& kernel,
                                       const CheckOptions& options = {});

}  // namespace spjit

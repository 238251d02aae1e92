#pragma once

/// @file
/// Checking a kernel against float64 before anybody gets it.

#include <cstdint>
#include <string>
#include <string_view>

#include "spjit/export.hpp"

namespace spjit {

/// How much of C is compared with a float64 reference (CompileOptions::verify).
enum class VerifyMode : std::uint8_t {
  none,     ///< nothing: no kernel is run
  sampled,  ///< all of C up to 2^25 multiply-adds, beyond that rows and columns at even distances
  full,     ///< all of C, however long that takes
};

/// "none", "sampled", "full"; throws InvalidArgument otherwise.
[[nodiscard]] SPJIT_EXPORT VerifyMode parse_verify(std::string_view name);
[[nodiscard]] SPJIT_EXPORT std::string_view to_string(VerifyMode mode);

/// Extent and result of a check. A kernel that fails its check is never handed out.
///
/// The kernel runs in the layouts of the problem, on a seeded B in [-1, 1) with made-up operands of
/// its epilogue. It runs with the problem's leading dimensions, then with larger ones and the
/// residual in C, then with another n if a run says n. On a GPU it runs with other sizes only if it
/// takes them.
///
/// In all of C, every element must have been written, and nothing around its rows (tokens, panels).
/// Without an epilogue, rows of A without entries must be +0. On a GPU only gaps between rows are
/// looked at: C there ends with its last element.
///
/// Elements that are compared must lie within p u / (1 - p u) * sum |a b| of the reference, with p
/// products and u = 2^-24. This bounds a dot product in any order (Higham, Accuracy and Stability
/// of Numerical Algorithms, 2nd ed., section 3.1). An epilogue adds a rounding for each step and
/// the error of its activation (docs/use/epilogue.md). Other numerics than the default have the
/// bound of their promise, and the unit roundoff of C's type. `integer` without an epilogue must be
/// exact. So must a quantised B, with an epilogue whose activation is exact.
struct Verification {
  VerifyMode mode = VerifyMode::none;  ///< none: the kernel was not checked
  std::string reason;                  ///< why it was not though that was asked for; or empty
  std::string device;                  ///< the CPU or GPU it ran on
  std::int64_t rows = 0;               ///< of C
  /// Rows of which elements were compared; the fullest is one. Further rows of A without entries
  /// are compared where there is an epilogue.
  std::int64_t rows_checked = 0;
  std::int64_t columns = 0;  ///< of C
  std::int64_t columns_checked = 0;
  double max_abs_error = 0;         ///< max |C - reference| over what was compared
  double max_error_over_bound = 0;  ///< the largest error as a share of its bound, at most 1
  double check_ms = 0;              ///< what the check took

  /// Whether every element of C was compared.
  [[nodiscard]] bool complete() const noexcept {
    return mode != VerifyMode::none && rows_checked == rows && columns_checked == columns;
  }
};

}  // namespace spjit

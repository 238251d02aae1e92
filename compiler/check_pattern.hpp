#pragma once

/// @file
/// Numbers of the operands that a kernel is checked with.

#include <cstdint>
#include <limits>
#include <vector>

#include "base/cancel.hpp"
#include "compiler/kernel_check.hpp"
#include "spjit/data_type.hpp"

namespace spjit {

/// A number of [-1, 1) as the type has it: rounded; integers are spread over their range, up to
/// 2^20.
[[nodiscard]] double in_type(DataType type, double value);

/// Factors of what elements of C grow with, so that few leave the range of C's type: of the scale,
/// where the epilogue has one, else of B. They are 1 where the range is wide.
class PatternScale {
 public:
  /// Throws what `pace` throws.
  PatternScale(const CheckedKernel& kernel, CancelPace& pace);

  [[nodiscard]] double of_b() const noexcept { return of_b_; }
  [[nodiscard]] float of_row(std::int64_t row) const;

 private:
  double of_b_ = 1;
  std::vector<float> rows_;  ///< of scales; none: 1
};

/// Elements of B, the same in every run: where tokens overlap in the first one, they have the same
/// numbers in the others.
class PatternOfB {
 public:
  PatternOfB(const CheckedKernel& kernel, double scale);

  [[nodiscard]] double at(std::int64_t row, std::int64_t column) const;

 private:
  DataType type_;
  double scale_;
  std::int64_t token_elements_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace spjit

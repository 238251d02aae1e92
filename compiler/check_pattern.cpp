#include "compiler/check_pattern.hpp"

#include <algorithm>
#include <cmath>

#include "base/arithmetic.hpp"
#include "plan/elements.hpp"
#include "plan/quantization.hpp"
#include "spjit/matrix_io.hpp"

namespace spjit {

double in_type(DataType type, double value) {
  constexpr double k_most = 0x1p20;
  const DataTypeInfo& info = info_of(type);
  if (!info.is_integer) return rounded_to(type, value);
  const double low = std::max(info.lowest, -k_most);
  const double high = std::min(info.largest, k_most);
  return rounded_to(type, low + (value + 1) / 2 * (high - low));
}

PatternScale::PatternScale(const CheckedKernel& kernel, CancelPace& pace) {
  constexpr double k_wide = 1e6;
  const DataType of_c = kernel.numerics.c;
  // Of bytes on either side of a zero point.
  const double range =
      is_byte(of_c) ? 127 * static_cast<double>(k_check_c_scale) : info_of(of_c).largest;
  if (range > k_wide) return;
  const DataTypeInfo& of_b = info_of(kernel.numerics.b);
  const double most_b = std::max(1.0, std::abs(in_type(kernel.numerics.b, -1)));
  const bool is_given = kernel.numerics.quantization == Quantization::given;
  const double unit = is_given ? static_cast<double>(k_check_b_scale) : 1;
  const CsrMatrix& matrix = kernel.matrix;
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    const std::int64_t begin = matrix.row_ptrs[to_size(row)];
    const std::int64_t end = matrix.row_ptrs[to_size(row) + 1];
    double squares = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const auto value = static_cast<double>(matrix.values[to_size(i)]);
      squares += value * value;
    }
    pace.spend(end - begin + 1);
    // What sums of random signs come to.
    const double spread = std::sqrt(squares) * most_b * unit;
    const double scale = spread > range ? range / spread : 1.0;
    if (kernel.epilogue.scale) {
      rows_.push_back(static_cast<float>(scale));
    } else {
      of_b_ = std::min(of_b_, scale);
    }
  }
  // Integers below 1 would all be 0.
  if (of_b.is_integer) of_b_ = std::max(of_b_, 1 / most_b);
}

float PatternScale::of_row(std::int64_t row) const {
  return rows_.empty() ? 1.0F : rows_[to_size(row)];
}

PatternOfB::PatternOfB(const CheckedKernel& kernel, double scale)
    : type_(kernel.numerics.b), scale_(scale) {
  const DenseFormat& b = kernel.runs.front().b;
  if (b.layout == Layout::tokens_major) token_elements_ = b.leading_dimension;
}

double PatternOfB::at(std::int64_t row, std::int64_t column) const {
  const std::int64_t tokens = row < token_elements_ ? 0 : row / token_elements_;
  const auto value = static_cast<double>(
      pattern_value(k_check_seed, row - tokens * token_elements_, column + tokens));
  return rounded_to(type_, in_type(type_, value) * scale_);
}

}  // namespace spjit

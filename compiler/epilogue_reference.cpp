#include "compiler/epilogue_reference.hpp"

#include <cmath>
#include <limits>

#include "kernels/activation.hpp"

namespace spjit {
namespace {

constexpr double k_rounding = 0x1p-24;
constexpr double k_smallest_float = std::numeric_limits<float>::denorm_min();
constexpr double k_largest_float = std::numeric_limits<float>::max();

/// `value`, to which an operand of an error up to `bound` leads, rounded to fp32.
Reference rounded(const Reference& before, double value, double bound) {
  Reference after{value, bound, before.may_overflow};
  if (!std::isfinite(value)) return after;
  after.bound += k_rounding * (std::abs(value) + bound) + k_smallest_float;
  after.may_overflow = after.may_overflow || std::abs(value) + after.bound > k_largest_float;
  return after;
}

bool is_smooth(Activation activation) {
  return activation == Activation::gelu_erf || activation == Activation::gelu_tanh ||
         activation == Activation::silu;
}

Reference activated(const Reference& sum, const Epilogue& epilogue) {
  if (epilogue.activation == Activation::none) return sum;
  const auto x = static_cast<float>(sum.value);
  const double y = activate(x, epilogue.activation, ClampBounds{epilogue.low, epilogue.high});
  // Of an infinity fp32 may have made NaN, which stays NaN.
  if (!std::isfinite(sum.value)) return {y, 0, true};
  // The sums from which it was made may be on either side of anything.
  if (sum.may_overflow) return {y, std::numeric_limits<double>::infinity(), true};
  if (!is_smooth(epilogue.activation)) {
    // x was rounded to fp32, as the kernel's own.
    return {y, sum.bound + k_rounding * std::abs(sum.value) + k_smallest_float, false};
  }
  constexpr double k_steepest = 1.13;  // of the three
  constexpr double k_units = 16 * 0x1p-23;
  constexpr double k_absolute = 1e-9;
  const double x_error = sum.bound + k_rounding * std::abs(sum.value) + k_smallest_float;
  return {y, k_steepest * x_error + k_units * std::abs(y) + k_absolute, false};
}

}  // namespace

Reference finished(Reference sum, const Epilogue& epilogue, const EpilogueValues& values) {
  if (epilogue.scale) {
    const double scale = values.scale;
    sum = rounded(sum, scale * sum.value, std::abs(scale) * sum.bound);
  }
  if (epilogue.bias) sum = rounded(sum, sum.value + static_cast<double>(values.bias), sum.bound);
  if (epilogue.residual) {
    sum = rounded(sum, sum.value + static_cast<double>(values.residual), sum.bound);
  }
  return activated(sum, epilogue);
}

}  // namespace spjit

#include "compiler/epilogue_reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "plan/elements.hpp"
#include "plan/quantization.hpp"

namespace spjit {
namespace {

constexpr double k_rounding = 0x1p-24;
constexpr double k_smallest_float = std::numeric_limits<float>::denorm_min();
constexpr double k_largest_result = std::numeric_limits<float>::max();

/// `value`, to which an operand of an error up to `bound` leads, rounded to fp32.
Reference rounded(const Reference& before, double value, double bound) {
  Reference after{value, bound, before.may_overflow};
  if (!std::isfinite(value)) return after;
  after.bound += k_rounding * (std::abs(value) + bound) + k_smallest_float;
  after.may_overflow = after.may_overflow || std::abs(value) + after.bound > k_largest_result;
  return after;
}

/// How far an fp32 activation is from its definition at most (docs/use/epilogue.md, of all
/// instruction sets), and the largest slope of that.
struct ActivationBounds {
  double units = 0;     ///< in the last place of the result
  double absolute = 0;  ///< beside that
  double slope = 1;
};

ActivationBounds bounds_of(const Epilogue& epilogue) {
  const double steepness = std::abs(static_cast<double>(epilogue.alpha));
  switch (epilogue.activation) {
    case Activation::gelu_erf:
    case Activation::gelu_tanh:
      return {.units = 10, .absolute = 3e-10, .slope = 1.13};
    case Activation::silu:
      return {.units = 6, .absolute = 3e-37, .slope = 1.1};
    case Activation::hard_swish:
      return {.units = 2, .slope = 1.5};
    case Activation::leaky_relu:
      return {.units = 1, .slope = std::max(1.0, steepness)};
    case Activation::hard_sigmoid: {
      // Where it is between 0 and 1, the product is at most 1 + |beta|; it and the sum are rounded.
      const double most = 2 + std::abs(static_cast<double>(epilogue.beta));
      return {.absolute = 2 * k_rounding * most, .slope = steepness};
    }
    case Activation::sigmoid:
      return {.units = 5, .absolute = 1.2e-38, .slope = 0.25};
    case Activation::tanh:
      return {.units = 3};
    case Activation::none:
    case Activation::relu:
    case Activation::clamp:
      break;
  }
  return {};
}

/// NaN stays NaN.
double clamped(double x, double low, double high) {
  const double raised = x < low ? low : x;
  return raised > high ? high : raised;
}

/// As `spjit/epilogue.hpp` defines it: kernels/host/layer/activation.cpp is among what is checked.
double definition_of(double x, const Epilogue& epilogue) {
  switch (epilogue.activation) {
    case Activation::none:
      break;
    case Activation::relu:
      return x < 0 ? 0 : x;
    case Activation::gelu_erf:
      return x / 2 * std::erfc(-x / std::numbers::sqrt2);
    case Activation::gelu_tanh: {
      // (1 + tanh(u)) / 2 = 1 / (1 + e^-2u)
      const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      return x / (1 + std::exp(-2 * u));
    }
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::clamp:
      return clamped(x, epilogue.low, epilogue.high);
    case Activation::hard_swish:
      return x * std::min(std::max(x + 3, 0.0), 6.0) / 6;
    case Activation::leaky_relu:
      return x < 0 ? static_cast<double>(epilogue.alpha) * x : x;
    case Activation::hard_sigmoid:
      return clamped(static_cast<double>(epilogue.alpha) * x + static_cast<double>(epilogue.beta),
                     0, 1);
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
  }
  return x;
}

Reference activated(const Reference& sum, const Epilogue& epilogue) {
  if (epilogue.activation == Activation::none) return sum;
  const double y = definition_of(sum.value, epilogue);
  // Of an infinity fp32 may have made NaN, which stays NaN.
  if (!std::isfinite(sum.value)) return {y, 0, true};
  // The sums from which it was made may be on either side of anything.
  if (sum.may_overflow) return {y, std::numeric_limits<double>::infinity(), true};
  const ActivationBounds bounds = bounds_of(epilogue);
  const double bound = bounds.slope * sum.bound;
  const double unit = 2 * k_rounding * (std::abs(y) + bound) + k_smallest_float;
  return {y, bound + bounds.units * unit + bounds.absolute, false};
}

/// The least number above 0 of a float type.
double least_of(DataType type) {
  if (type == DataType::f16) return 0x1p-24;
  return type == DataType::bf16 ? 0x1p-133 : k_smallest_float;
}

/// The byte of C nearest to a quotient, whose own rounding its bound has. NaN becomes the least
/// one.
double byte_of(double quotient, DataType type, const ByteScale& scale) {
  const DataTypeInfo& info = info_of(type);
  if (std::isnan(quotient)) return info.lowest;
  return std::clamp(std::nearbyint(quotient) + scale.zero_point, info.lowest, info.largest);
}

/// A byte of C without any error: of the fp32 that `value` is.
Reference exact_byte(double value, DataType type, const ByteScale& scale) {
  const float quotient = static_cast<float>(value) / scale.scale;
  return {byte_of(static_cast<double>(quotient), type, scale), 0, false};
}

/// A byte of C of an fp32 in bounds; of one that may have passed the range of fp32 anything.
Reference stored_byte(const Reference& before, DataType type, const ByteScale& scale) {
  if (std::isnan(before.value)) return {byte_of(before.value, type, scale), 0, false};
  if (!std::isfinite(before.value) || before.may_overflow) {
    return {byte_of(before.value, type, scale), std::numeric_limits<double>::infinity(), false};
  }
  const DataTypeInfo& info = info_of(type);
  const double of_byte = scale.scale;
  const double quotient = before.value / of_byte;
  const double bound = before.bound / of_byte;
  const double rounding = k_rounding * (std::abs(quotient) + bound) + k_smallest_float;
  return {std::clamp(quotient + scale.zero_point, info.lowest, info.largest),
          bound + rounding + 0.5, false};
}

/// Rounded to the type of C. An fp32 that is NaN or infinite where the reference is not is so in C;
/// as an integer it is anything.
Reference stored(const Reference& before, DataType type) {
  const DataTypeInfo& info = info_of(type);
  Reference after = before;
  if (info.is_integer) {
    constexpr double k_anything = std::numeric_limits<double>::infinity();
    const bool is_certain =
        std::isnan(before.value) || (std::isfinite(before.value) && !before.may_overflow);
    after.value =
        std::isnan(before.value) ? 0 : std::clamp(before.value, info.lowest, info.largest);
    after.bound = is_certain ? before.bound + 0.5 : k_anything;
    after.may_overflow = false;
    return after;
  }
  if (!std::isfinite(before.value)) return after;
  const double reach = std::abs(before.value) + before.bound;
  after.bound += info.unit_roundoff * reach + least_of(type);
  after.may_overflow = before.may_overflow || std::abs(before.value) + after.bound > info.largest;
  return after;
}

/// As stored(); f32 is the type before, so nothing is rounded.
Reference stored_float(const Reference& before, DataType type, const ByteScale& scale) {
  if (is_byte(type)) return stored_byte(before, type, scale);
  return type == DataType::f32 ? before : stored(before, type);
}

/// Of exact sums and a quantised B: steps up to the activation as they are defined.
Reference quantized_element(double sum, const Numerics& numerics, const Epilogue& epilogue,
                            const EpilogueValues& values) {
  auto value = static_cast<float>(sum);
  if (epilogue.bias_first) value += values.bias;
  value *= values.b_scale * values.scale;
  if (epilogue.bias && !epilogue.bias_first) value += values.bias;
  if (epilogue.residual) value += values.residual;
  const Reference before{static_cast<double>(value), 0, false};
  const bool is_exact = epilogue.activation == Activation::none ||
                        epilogue.activation == Activation::relu ||
                        epilogue.activation == Activation::clamp;
  if (!is_exact) return stored_float(activated(before, epilogue), numerics.c, values.c);
  const double after = definition_of(before.value, epilogue);
  if (is_byte(numerics.c)) return exact_byte(after, numerics.c, values.c);
  return {rounded_to(numerics.c, after), 0, false};
}

/// Of exact sums of groups of columns, which were scaled and added in fp32.
Reference scaled_element(const Reference& sum, const Numerics& numerics, Epilogue epilogue,
                         EpilogueValues values) {
  if (is_quantized(numerics)) {
    epilogue.scale = true;
    values.scale *= values.b_scale;
  }
  return stored_float(epilogue.empty() ? sum : finished(sum, epilogue, values), numerics.c,
                      values.c);
}

}  // namespace

Reference finished(Reference sum, const Epilogue& epilogue, const EpilogueValues& values) {
  const auto add_bias = [&] {
    sum = rounded(sum, sum.value + static_cast<double>(values.bias), sum.bound);
  };
  if (epilogue.bias_first) add_bias();
  if (epilogue.scale) {
    const double scale = values.scale;
    sum = rounded(sum, scale * sum.value, std::abs(scale) * sum.bound);
  }
  if (epilogue.bias && !epilogue.bias_first) add_bias();
  if (epilogue.residual) {
    sum = rounded(sum, sum.value + static_cast<double>(values.residual), sum.bound);
  }
  return activated(sum, epilogue);
}

Reference element_of_c(Reference sum, const Numerics& numerics, const Epilogue& epilogue,
                       const EpilogueValues& values) {
  const bool has_groups = numerics.accumulate.promise == Promise::integer && sum.bound > 0;
  if (has_groups) return scaled_element(sum, numerics, epilogue, values);
  if (is_quantized(numerics)) return quantized_element(sum.value, numerics, epilogue, values);
  const Promise promise = numerics.accumulate.promise;
  const bool is_float = promise == Promise::ordered || promise == Promise::tensor;
  if (!epilogue.empty()) {
    if (!is_float) sum = stored(sum, DataType::f32);
    return stored_float(finished(sum, epilogue, values), numerics.c, values.c);
  }
  if (promise == Promise::integer) {
    if (is_byte(numerics.c)) return exact_byte(sum.value, numerics.c, values.c);
    return {rounded_to(numerics.c, sum.value), 0, false};
  }
  if (!is_float && is_byte(numerics.c)) sum = stored(sum, DataType::f32);
  return is_float || is_byte(numerics.c) ? stored_float(sum, numerics.c, values.c)
                                         : stored(sum, numerics.c);
}

}  // namespace spjit

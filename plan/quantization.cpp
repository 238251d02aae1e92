#include "plan/quantization.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace spjit {
namespace {

constexpr float k_most_unsigned = 255;
constexpr float k_most_signed = 127;

/// NaN becomes `low`.
float within(float value, float low, float high) {
  const float raised = value > low ? value : low;
  return raised < high ? raised : high;
}

std::int32_t rounded_quotient(float value, const ByteScale& scale, const QuotientBounds& bounds) {
  const float quotient = within(value / scale.scale, bounds.low, bounds.high);
  return static_cast<std::int32_t>(std::nearbyint(quotient)) + scale.zero_point;
}

}  // namespace

void FloatRange::add(float value) noexcept {
  least = std::min(least, value);
  largest = std::max(largest, value);
  is_finite = is_finite && std::isfinite(value);
}

ByteScale scale_of(const FloatRange& range, Quantization quantization) noexcept {
  if (!range.is_finite) return {std::numeric_limits<float>::quiet_NaN(), 0};
  if (quantization == Quantization::token) {
    const float scale = std::max(range.largest, -range.least) / k_most_signed;
    return {scale == 0 ? 1 : scale, 0};
  }
  const float width = range.largest - range.least;
  const float scale = width == 0 ? 1 : width / k_most_unsigned;
  // As ONNX Runtime, which takes what is NaN for the largest.
  const float zero = 0.0F - range.least / scale;
  const float most = zero < k_most_unsigned ? zero : k_most_unsigned;
  return {scale, static_cast<std::int32_t>(std::nearbyint(std::max(most, 0.0F)))};
}

QuotientBounds bounds_of(const ByteScale& scale, Quantization quantization) noexcept {
  if (quantization == Quantization::token) return {-k_most_signed, k_most_signed};
  const auto zero = static_cast<float>(scale.zero_point);
  return {-zero, k_most_unsigned - zero};
}

QuotientBounds bounds_of(const ByteScale& scale, DataType type) noexcept {
  const auto zero = static_cast<float>(scale.zero_point);
  const DataTypeInfo& info = info_of(type);
  return {static_cast<float>(info.lowest) - zero, static_cast<float>(info.largest) - zero};
}

ByteScale scale_of_c(const Arguments& arguments) noexcept {
  return {arguments.c_scale == nullptr ? 1 : *arguments.c_scale, arguments.c_zero_point};
}

std::int32_t quantized(float value, const ByteScale& scale, DataType type) noexcept {
  return rounded_quotient(value, scale, bounds_of(scale, type));
}

std::int32_t quantized(float value, const ByteScale& scale, Quantization quantization) noexcept {
  return rounded_quotient(value, scale, bounds_of(scale, quantization));
}

}  // namespace spjit

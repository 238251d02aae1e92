#include "compiler/quantized_reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "plan/elements.hpp"

namespace spjit {

QuantizedColumns::QuantizedColumns(const void* b, const PlacementOfB& layout, std::int64_t rows,
                                   const std::vector<std::int64_t>& columns,
                                   const QuantizedNumerics& how)
    : b_(b), layout_(layout), rows_(rows), columns_(columns), numerics_(how.numerics) {
  if (numerics_.quantization == Quantization::token) {
    for (const std::int64_t column : columns) scales_.push_back(of_token(column));
  } else {
    scales_.assign(columns.size(), how.of_tensor ? *how.of_tensor : of_tensor());
  }
}

double QuantizedColumns::difference(std::int64_t row, std::size_t i) const {
  if (layout_.offset(row, columns_[i]) < 0) return 0;
  const ByteScale& scale = scales_[i];
  const double zero = scale.zero_point;
  const double b = element(row, columns_[i]);
  if (numerics_.quantization == Quantization::given) return b - zero;
  const auto quotient = static_cast<double>(static_cast<float>(b) / scale.scale);
  const bool is_token = numerics_.quantization == Quantization::token;
  const double low = is_token ? -127 : -zero;
  const double high = is_token ? 127 : 255 - zero;
  if (std::isnan(quotient)) return low;
  return std::clamp(std::nearbyint(quotient), low, high);
}

double QuantizedColumns::element(std::int64_t row, std::int64_t column) const {
  return load_element(numerics_.b, b_, layout_.offset(row, column));
}

ByteScale QuantizedColumns::of_range(double least, double largest) const {
  constexpr float k_none = std::numeric_limits<float>::quiet_NaN();
  if (!std::isfinite(least) || !std::isfinite(largest)) return {k_none, 0};
  if (numerics_.quantization == Quantization::token) {
    const float scale = static_cast<float>(std::max(largest, -least)) / 127.0F;
    return {scale > 0 ? scale : 1.0F, 0};
  }
  if (least == largest) return {1.0F, 0};
  const float scale = (static_cast<float>(largest) - static_cast<float>(least)) / 255.0F;
  if (scale == 0) return {scale, 255};
  const double zero = -static_cast<double>(static_cast<float>(least) / scale);
  return {scale, static_cast<std::int32_t>(std::clamp(std::nearbyint(zero), 0.0, 255.0))};
}

ByteScale QuantizedColumns::of_tensor() const {
  double least = 0;
  double largest = 0;
  const Convolution* const of = layout_.convolution;
  const std::int64_t columns = of == nullptr ? layout_.columns() : of->height * of->width;
  const std::int64_t rows = of == nullptr ? rows_ : of->channels;
  for (std::int64_t column = 0; column < columns; ++column) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const double b = load_element(numerics_.b, b_, layout_.stored.offset(row, column));
      if (std::isnan(b)) return of_range(b, b);
      least = std::min(least, b);
      largest = std::max(largest, b);
    }
  }
  return of_range(least, largest);
}

ByteScale QuantizedColumns::of_token(std::int64_t column) const {
  double most = 0;
  for (std::int64_t row = 0; row < rows_; ++row) {
    const double magnitude = std::abs(element(row, column));
    if (std::isnan(magnitude)) return of_range(magnitude, magnitude);
    most = std::max(most, magnitude);
  }
  return of_range(0, most);
}

}  // namespace spjit

#pragma once

/// @file
/// The epilogue: operations on sums before they are stored as C (docs/use/epilogue.md).

#include <cstdint>
#include <string_view>

#include "spjit/export.hpp"

namespace spjit {

/// A function of each element, as PyTorch defines it.
enum class Activation : std::uint8_t {
  none,
  relu,          ///< 0 where x < 0, else x
  gelu_erf,      ///< x / 2 * (1 + erf(x / sqrt(2)))
  gelu_tanh,     ///< x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))
  silu,          ///< x / (1 + e^-x)
  clamp,         ///< min(max(x, low), high)
  hard_swish,    ///< x * min(max(x + 3, 0), 6) / 6
  leaky_relu,    ///< alpha * x where x < 0, else x
  hard_sigmoid,  ///< min(max(alpha * x + beta, 0), 1)
  sigmoid,       ///< 1 / (1 + e^-x)
  tanh,          ///< (e^x - e^-x) / (e^x + e^-x)
};

/// The last of them.
inline constexpr Activation k_last_activation = Activation::tanh;

/// "none", "relu", "gelu", "gelu-tanh", "silu", "clamp", "hard-swish", "leaky-relu",
/// "hard-sigmoid", "sigmoid", "tanh"; throws InvalidArgument otherwise.
[[nodiscard]] SPJIT_EXPORT Activation parse_activation(std::string_view name);
[[nodiscard]] SPJIT_EXPORT std::string_view to_string(Activation activation);

/// y = activation(scale * (A * B) + bias + residual): first the product with the row's scale, then
/// the sum with its bias, then with the residual, each rounded. What is not there is left out, not
/// one or zero. Operands are Arguments of a run. Rows of A without entries have it, too.
struct Epilogue {
  bool scale = false;     ///< Arguments::scale, a factor for each row of C
  bool bias = false;      ///< Arguments::bias, a summand for each row of C
  bool residual = false;  ///< Arguments::residual, a summand for each element, laid out as C
  Activation activation = Activation::none;
  float low = 0;   ///< of clamp; may be -infinity
  float high = 0;  ///< of clamp, >= low; may be infinity
  /// Parameter of leaky_relu (PyTorch and ONNX: 0.01 by default) and hard_sigmoid (PyTorch: 1 / 6,
  /// ONNX: 0.2 by default); finite.
  float alpha = 0;
  float beta = 0;  ///< of hard_sigmoid (0.5 there), finite
  /// With scale and bias: y = activation(scale * (A * B + bias) + residual), each step rounded.
  /// With sums of `integer` and a bias of whole numbers, ONNX's QLinearConv. On the host.
  bool bias_first = false;

  /// Whether C is the product.
  [[nodiscard]] bool empty() const noexcept {
    return !scale && !bias && !residual && activation == Activation::none;
  }

  friend bool operator==(const Epilogue&, const Epilogue&) = default;
};

}  // namespace spjit

#pragma once

/// @file
/// What a kernel does with sums before it stores them as C (docs/epilogue.md).

#include <cstdint>
#include <string_view>

#include "spjit/export.hpp"

namespace spjit {

/// A function of each element, as PyTorch defines it.
enum class Activation : std::uint8_t {
  none,
  relu,        ///< 0 where x < 0, else x
  gelu_erf,    ///< x / 2 * (1 + erf(x / sqrt(2)))
  gelu_tanh,   ///< x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))
  silu,        ///< x / (1 + e^-x)
  clamp,       ///< min(max(x, low), high)
  hard_swish,  ///< x * min(max(x + 3, 0), 6) / 6
};

/// The last of them.
inline constexpr Activation k_last_activation = Activation::hard_swish;

/// "none", "relu", "gelu", "gelu-tanh", "silu", "clamp", "hard-swish"; throws InvalidArgument
/// otherwise.
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

  /// Whether C is the product.
  [[nodiscard]] bool empty() const noexcept {
    return !scale && !bias && !residual && activation == Activation::none;
  }

  friend bool operator==(const Epilogue&, const Epilogue&) = default;
};

}  // namespace spjit

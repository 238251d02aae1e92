#pragma once

/// @file
/// All activations that an epilogue can have.

#include <array>

#include "plan/problem.hpp"
#include "spjit/epilogue.hpp"

namespace spjit::testing_support {

inline constexpr std::array k_activations = {
    Activation::none,         Activation::relu,    Activation::gelu_erf,   Activation::gelu_tanh,
    Activation::silu,         Activation::clamp,   Activation::hard_swish, Activation::leaky_relu,
    Activation::hard_sigmoid, Activation::sigmoid, Activation::tanh};
static_assert(k_activations.back() == k_last_activation);

/// Gives activations that have alpha and beta some that are neither 0 nor 1.
inline void set_line(Epilogue& epilogue) {
  if (has_alpha(epilogue.activation)) epilogue.alpha = -0.3F;
  if (has_beta(epilogue.activation)) epilogue.beta = 0.4F;
}

}  // namespace spjit::testing_support

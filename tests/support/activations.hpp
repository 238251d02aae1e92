#pragma once

/// @file
/// All activations that an epilogue can have.

#include <array>

#include "spjit/epilogue.hpp"

namespace spjit::testing_support {

inline constexpr std::array k_activations = {
    Activation::none, Activation::relu,  Activation::gelu_erf,  Activation::gelu_tanh,
    Activation::silu, Activation::clamp, Activation::hard_swish};
static_assert(k_activations.back() == k_last_activation);

}  // namespace spjit::testing_support

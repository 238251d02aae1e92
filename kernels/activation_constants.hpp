#pragma once

/// @file
/// Constants of activations that kernels of CPUs and of GPUs share, besides the fitted ones of
/// kernels/activation_tables.hpp: both give the same bits.

namespace spjit {

/// Factor of hard swish, x * (min(max(x + 3, 0), 6) * k_sixth): 6 times it is rounded to 1.
inline constexpr float k_sixth = 1.0F / 6;
/// The lowest bits of a number's sum with this are the number plus the exponent of 1.
inline constexpr float k_exponent_field = 0x1.8p23F + 127;

}  // namespace spjit

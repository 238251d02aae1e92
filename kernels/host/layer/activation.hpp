#pragma once

/// @file
/// Activations of arrays and of single floats. Loops that have vectors in registers use
/// kernels/host/layer/activation_vectors.hpp. docs/use/epilogue.md has bounds of the errors and
/// special values.

#include <span>

#include "spjit/epilogue.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// The parameters of Epilogue's activations. An activation looks at its own alone.
struct ActivationParameters {
  float low = 0;
  float high = 0;
  float alpha = 0;
  float beta = 0;
};

[[nodiscard]] inline ActivationParameters parameters_of(const Epilogue& epilogue) {
  return {epilogue.low, epilogue.high, epilogue.alpha, epilogue.beta};
}

/// The activation as HostIsa::generic computes it: GELU, SiLU, sigmoid and tanh are computed in
/// double and rounded once.
[[nodiscard]] float activate(float x, Activation activation,
                             const ActivationParameters& parameters);

/// Replaces each of `values` by its activation, with the bits that vectors of `isa` give at any
/// place in a loop. Precondition: this CPU has `isa`.
void activate(std::span<float> values, Activation activation,
              const ActivationParameters& parameters, HostIsa isa);

}  // namespace spjit

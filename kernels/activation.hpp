#pragma once

/// @file
/// Activations of arrays and of single floats. Loops that have vectors in registers use
/// kernels/activation_vectors.hpp. docs/epilogue.md has bounds of the errors and special values.

#include <span>

#include "spjit/epilogue.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// Of Activation::clamp; other activations do not look at it.
struct ClampBounds {
  float low = 0;
  float high = 0;
};

/// Computed in double and rounded once: what HostIsa::generic has.
[[nodiscard]] float activate(float x, Activation activation, ClampBounds bounds);

/// Replaces each of `values` by its activation, with the bits that vectors of `isa` give at any
/// place in a loop. Precondition: this CPU has `isa`.
void activate(std::span<float> values, Activation activation, ClampBounds bounds, HostIsa isa);

}  // namespace spjit

#pragma once

/// @file
/// What an epilogue makes of an element of A * B, in float64 with a bound on the error.

#include "compiler/float64_reference.hpp"
#include "spjit/epilogue.hpp"

namespace spjit {

/// Operands of an epilogue at one element of C.
struct EpilogueValues {
  float scale = 1;
  float bias = 0;
  float residual = 0;
};

/// The element of C whose sum is `sum`. The bound grows by a rounding for each operation, by the
/// largest slope of the activation, and by as much as docs/use/epilogue.md lets that be wrong.
[[nodiscard]] Reference finished(Reference sum, const Epilogue& epilogue,
                                 const EpilogueValues& values);

}  // namespace spjit

#pragma once

/// @file
/// From an element of A * B to one of C, in float64 with a bound on the error.

#include "compiler/float64_reference.hpp"
#include "plan/quantization.hpp"
#include "spjit/epilogue.hpp"
#include "spjit/numerics.hpp"

namespace spjit {

/// Operands of an epilogue at one element of C.
struct EpilogueValues {
  float b_scale = 1;  ///< of a B that is quantised
  float scale = 1;
  float bias = 0;
  float residual = 0;
  ByteScale c = {};  ///< of a C of bytes
};

/// The element of C whose sum is `sum`. The bound grows by a rounding for each operation, by the
/// largest slope of the activation, and by as much as docs/use/epilogue.md lets that be wrong.
[[nodiscard]] Reference finished(Reference sum, const Epilogue& epilogue,
                                 const EpilogueValues& values);

/// The element of C of the type that the numerics say. The sum of other promises than `ordered` is
/// rounded to fp32 where there is an epilogue. The bound grows by half a unit of the last place of
/// C. `integer` without an epilogue has none: C is the rounded sum. Nor has a quantised B with an
/// epilogue whose activation is exact: each step is computed as it is defined.
[[nodiscard]] Reference element_of_c(Reference sum, const Numerics& numerics,
                                     const Epilogue& epilogue, const EpilogueValues& values);

}  // namespace spjit

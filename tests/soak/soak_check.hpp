#pragma once

/// @file
/// Runs a case and compares it with two loops of its own: the stated arithmetic bit for bit, and
/// float64 within the bound that rounding allows. Neither uses anything of the compiler.

#include <functional>
#include <string>

#include "tests/soak/soak_case.hpp"

namespace spjit::soak {

/// Fills C: `c` [m x n], rows item.ldc floats apart, from `b` [k x n], rows item.ldb apart.
using RunCase = std::function<void(const SoakCase& item, const float* b, float* c)>;

/// The kernel under test: compiles and runs. `directory`: for the cache of this case.
[[nodiscard]] RunCase run_kernel(const std::string& directory);

/// The expected value of one element.
struct Expected {
  float bits = 0;    ///< by the stated arithmetic
  double value = 0;  ///< in float64
  double bound = 0;  ///< on |C - value|
};

/// Whether float64 agrees with an element: within the bound, or not finite where the sum is not or
/// where the bound allows it to pass the largest float.
[[nodiscard]] bool is_near(float c, const Expected& expected);

/// Empty, or in one line what was wrong: an element, a float between rows that was touched, an
/// exception.
[[nodiscard]] std::string check_case(const SoakCase& item, const RunCase& run);

}  // namespace spjit::soak

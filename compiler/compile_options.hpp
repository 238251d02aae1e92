#pragma once

/// @file
/// Checks of what a Compiler is given.

#include "spjit/options.hpp"
#include "spjit/problem.hpp"

namespace spjit {

/// The options with defaults filled in. Throws InvalidArgument for what is out of range.
[[nodiscard]] CompileOptions checked_options(CompileOptions options);

/// Throws InvalidArgument for a checked problem whose sizes or layout the target does not have.
void check_for_target(const Problem& problem, const Target& target);

}  // namespace spjit

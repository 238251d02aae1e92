#pragma once

/// @file
/// Checks of the scales and zero points of a run. Messages name the members of Arguments.

#include "spjit/arguments.hpp"
#include "spjit/kernel_info.hpp"

namespace spjit {

/// Checks those of a B that is given as bytes. Throws InvalidArgument where they are missing, given
/// to another kernel, or a zero point is not one of B's type.
void check_scale_of_b(const KernelInfo& info, const Arguments& arguments);

/// Checks those of a C of bytes. Throws InvalidArgument where another C has them, a zero point is
/// not one of C's type, and for a scale that is not finite or not above 0.
void check_scale_of_c(const KernelInfo& info, const Arguments& arguments);

}  // namespace spjit

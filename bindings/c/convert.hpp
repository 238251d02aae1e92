#pragma once

/// @file
/// Members of the C interface's structs as C++ has them.

#include <cstdint>
#include <optional>

#include "spjit.h"
#include "spjit/layout.hpp"
#include "spjit/parallel_for.hpp"
#include "spjit/problem.hpp"

namespace spjit::c {

/// The layout of an enum spjit_layout; none for the default. Throws InvalidArgument.
[[nodiscard]] std::optional<Layout> layout_of(std::int32_t layout, const char* name);

/// Throws InvalidArgument.
[[nodiscard]] Problem problem_of(const spjit_problem& given, const SharedMatrix& matrix);

/// Empty for null.
[[nodiscard]] ParallelFor parallel_for_of(spjit_parallel_for parallel_for, void* user);

}  // namespace spjit::c

#pragma once

/// @file
/// Whether a kernel can be run with what a run is given.

#include <cstdint>

#include "kernels/host/operands/packing.hpp"
#include "spjit/arguments.hpp"
#include "spjit/kernel.hpp"

namespace spjit {

/// The arguments with defaults filled in: sizes, leading dimensions, layouts. Throws
/// InvalidArgument for what Kernel::run() says of sizes, pointers and overlaps.
[[nodiscard]] Arguments checked_arguments(const KernelInfo& info, Arguments arguments);

/// The arguments with checked sizes alone: pointers may be null.
[[nodiscard]] Arguments checked_sizes(const KernelInfo& info, Arguments arguments);

/// Throws InvalidArgument for values that were not prepared for a kernel that needs some, or for
/// another one than `id` (Executable::id()).
void check_values(const KernelInfo& info, std::uint64_t id, const PreparedValues* values);

/// Throws InvalidArgument unless `count` rows (or tokens) of `width` floats can be `ld` apart.
void check_leading_dimension(const char* name, std::int64_t ld, std::int64_t count,
                             std::int64_t width);

/// Throws InvalidArgument for a null pointer to an array that is not empty.
void check_pointer(const char* name, const float* pointer, std::int64_t rows, std::int64_t n);

/// How panels of a kernel lie. Throws InvalidArgument for a kernel without panels and for rows
/// outside [0, 2^31).
[[nodiscard]] PanelLayout panels_of(const KernelInfo& info, std::int64_t rows, std::int64_t n);

}  // namespace spjit

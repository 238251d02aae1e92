#pragma once

/// @file
/// Whether a kernel can be run with what a run is given.

#include <cstdint>

#include "kernels/host/operands/packing.hpp"
#include "spjit/arguments.hpp"
#include "spjit/data_type.hpp"
#include "spjit/kernel.hpp"

namespace spjit {

/// Types of the elements of B, C and a residual.
struct OperandTypes {
  DataType b = DataType::f32;
  DataType c = DataType::f32;
  DataType residual = DataType::f32;
};

/// The operands that a kernel takes. A residual is of C's type.
[[nodiscard]] OperandTypes operand_types_of(const KernelInfo& info) noexcept;

/// The arguments with defaults filled in: sizes, leading dimensions, layouts. `types`: of whole
/// bytes. Throws InvalidArgument for what Kernel::run() says of types, sizes, pointers and
/// overlaps.
[[nodiscard]] Arguments checked_arguments(const KernelInfo& info, Arguments arguments,
                                          const OperandTypes& types);
[[nodiscard]] inline Arguments checked_arguments(const KernelInfo& info,
                                                 const Arguments& arguments) {
  return checked_arguments(info, arguments, operand_types_of(info));
}

/// The arguments with checked types and sizes alone: pointers may be null, and a null one has no
/// type.
[[nodiscard]] Arguments checked_sizes(const KernelInfo& info, Arguments arguments);

/// Throws InvalidArgument for values that were not prepared for a kernel that needs some, or for
/// another one than `id` (Executable::id()).
void check_values(const KernelInfo& info, std::uint64_t id, const PreparedValues* values);

/// Rows, or tokens.
struct RowsOf {
  std::int64_t count;
  std::int64_t width;  ///< elements of one
};

/// Throws InvalidArgument unless such rows of elements of a type can be `ld` apart.
void check_leading_dimension(const char* name, std::int64_t ld, const RowsOf& rows, DataType type);

/// Throws InvalidArgument for a null pointer to an array that is not empty.
void check_pointer(const char* name, const void* pointer, std::int64_t rows, std::int64_t n);

/// How panels of a kernel lie. Throws InvalidArgument for a kernel without panels and for rows
/// outside [0, 2^31).
[[nodiscard]] PanelLayout panels_of(const KernelInfo& info, std::int64_t rows, std::int64_t n);

}  // namespace spjit

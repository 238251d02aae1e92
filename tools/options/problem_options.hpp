#pragma once

/// @file
/// Options that say what a kernel computes: n, layouts, the epilogue and its operands.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <span>
#include <string>

#include "spjit/problem.hpp"
#include "tools/options/operand_files.hpp"
#include "tools/report/terminal.hpp"

namespace spjit::cli {

/// --n, --conv, --kernel, --stride, --pad, --dilation, --groups, --layout, --b-layout, --c-layout,
/// --panel-columns, --scale, --bias, --residual, --activation, --group-scales, --group-columns,
/// --runtime-values.
void add_problem_options(CLI::App& command, Problem& problem, OperandFiles& files);

/// Fills in what options together mean. Throws UsageError and InvalidArgument for a problem that is
/// wrong for every matrix.
void check_problem(Problem& problem);

/// The kernel's height and width, or the length of weights [filters x channels / groups x length]:
/// what is said so far is of a convolution of one dimension then. check_problem() comes after it.
/// Throws InvalidArgument for an image of more than a row.
void set_kernel(Convolution& of, std::span<const std::int64_t> sizes);

/// n as `any` sets it.
void set_any_columns(Problem& problem);

/// The problem as records have it, but for its matrix.
[[nodiscard]] Json describe(const Problem& problem);

/// "512", or "any (128 is typical)".
[[nodiscard]] std::string columns_text(const Extent& n);
/// "features", or of B and C that differ "tokens, features".
[[nodiscard]] std::string layouts_text(Layout b, Layout c);
/// The problem as text, for a line below a table; empty for C = A * B of a fixed n, feature by
/// feature.
[[nodiscard]] std::string layer_text(const Problem& problem);

}  // namespace spjit::cli

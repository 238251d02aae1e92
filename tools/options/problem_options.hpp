#pragma once

/// @file
/// Options that say what a kernel computes: n, layouts, the epilogue and its operands.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "spjit/problem.hpp"
#include "tools/report/terminal.hpp"

namespace spjit::cli {

/// `[m]` floats of an epilogue. Without a path they are made up where a kernel runs.
struct OperandFile {
  std::filesystem::path path;
  std::vector<float> values;  ///< once read_operands() has run
};

struct OperandFiles {
  OperandFile scale;
  OperandFile bias;
};

/// --n, --conv, --kernel, --stride, --pad, --dilation, --groups, --layout, --b-layout, --c-layout,
/// --panel-columns, --scale, --bias, --residual, --activation, --runtime-values.
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

/// Reads the files that were named. Throws IoError for one that is no `.npy` of one dimension.
void read_operands(OperandFiles& files);

/// Throws InvalidArgument unless each file has a number for each of so many rows of A.
void check_rows(const OperandFiles& files, std::int64_t rows);

/// The problem as records have it, but for its matrix.
[[nodiscard]] Json describe(const Problem& problem);
/// {"scale": null or path, "bias": the same}.
[[nodiscard]] Json describe(const OperandFiles& files);

/// "512", or "any (128 is typical)".
[[nodiscard]] std::string columns_text(const Extent& n);
/// "features", or of B and C that differ "tokens, features".
[[nodiscard]] std::string layouts_text(Layout b, Layout c);
/// The problem as text, for a line below a table; empty for C = A * B of a fixed n, feature by
/// feature.
[[nodiscard]] std::string layer_text(const Problem& problem);

}  // namespace spjit::cli

#pragma once

/// @file
/// Options of commands that make kernels, or plan to: what a kernel is made of and how it is
/// checked.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/options/model_inputs.hpp"
#include "tools/report/layer.hpp"

namespace spjit::cli {

/// The options of a kernel (add_kernel_options()) for one target or several, --keep-source,
/// --timeout, --verify and --no-verify. Checks of `options` are `sampled` from then on. `convert`:
/// how .onnx files are read.
void add_layer_options(CLI::App& command, LayerOptions& options, const ModelConverter& convert);

}  // namespace spjit::cli

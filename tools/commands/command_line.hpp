#pragma once

/// @file
/// The command line tool: reads the command line, runs the subcommand, turns errors into one line
/// and an exit status.

#include "tools/options/model_inputs.hpp"

namespace spjit::cli {

/// Runs the command line, for main(); returns the exit status (ExitCode). Changes the process's
/// handlers of SIGPIPE and SIGXFSZ. `convert`: how .onnx files are read, if they are.
[[nodiscard]] int run_command_line(int argc, const char* const* argv,
                                   const ModelConverter& convert = {});

}  // namespace spjit::cli

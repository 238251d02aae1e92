#pragma once

/// @file
/// The subcommands. Each adds itself, its options and its manual page to the parser, and returns
/// what is to be done once the command line is read. That throws spjit::Error, which ends the
/// program with ExitCode::failed; failures of single inputs are handled inside.

#include <CLI/CLI.hpp>
#include <functional>
#include <stdexcept>

#include "exit_code.hpp"

namespace spjit::cli {

struct Subcommand {
  CLI::App* parser = nullptr;  ///< owned by the parser it was added to
  std::function<ExitCode()> run;
};

[[nodiscard]] Subcommand add_compile(CLI::App& app);
[[nodiscard]] Subcommand add_bench(CLI::App& app);
[[nodiscard]] Subcommand add_explain(CLI::App& app);
[[nodiscard]] Subcommand add_gen(CLI::App& app);
[[nodiscard]] Subcommand add_cache(CLI::App& app);
[[nodiscard]] Subcommand add_collect(CLI::App& app);
[[nodiscard]] Subcommand add_train(CLI::App& app);
[[nodiscard]] Subcommand add_devices(CLI::App& app);

/// A command line that its subcommand finds wrong after parsing: ExitCode::usage.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace spjit::cli

#pragma once

/// @file
/// The subcommands. Each adds itself, its options and its manual page to the parser, and returns
/// what is to be done once the command line is read. That throws spjit::Error, which ends the
/// program with ExitCode::failed; failures of single inputs are handled inside.

#include <CLI/CLI.hpp>
#include <functional>
#include <stdexcept>

#include "tools/options/model_inputs.hpp"

namespace spjit::cli {

/// Meanings of the exit status of `spjit`; docs/use/cli.md and --help say the same.
enum class ExitCode : int {
  ok = 0,           ///< everything asked for was done
  some_failed = 1,  ///< some inputs failed, the others were done
  usage = 2,        ///< the command line is wrong; nothing was done
  failed = 3,       ///< every input failed, or something the command needs is not there
};

/// The status of a command that worked on `inputs` inputs, `failures` of which failed.
[[nodiscard]] constexpr ExitCode exit_code(std::size_t inputs, std::size_t failures) {
  if (failures == 0) return ExitCode::ok;
  return failures < inputs ? ExitCode::some_failed : ExitCode::failed;
}

struct Subcommand {
  CLI::App* parser = nullptr;  ///< owned by the parser it was added to
  std::function<ExitCode()> run;
};

[[nodiscard]] Subcommand add_compile(CLI::App& app, const ModelConverter& convert);
[[nodiscard]] Subcommand add_plan(CLI::App& app, const ModelConverter& convert);
[[nodiscard]] Subcommand add_work(CLI::App& app, const ModelConverter& convert);
[[nodiscard]] Subcommand add_bench(CLI::App& app, const ModelConverter& convert);
[[nodiscard]] Subcommand add_explain(CLI::App& app, const ModelConverter& convert);
[[nodiscard]] Subcommand add_inspect(CLI::App& app, const ModelConverter& convert);
[[nodiscard]] Subcommand add_gen(CLI::App& app);
[[nodiscard]] Subcommand add_quantize(CLI::App& app);
[[nodiscard]] Subcommand add_cache(CLI::App& app, const ModelConverter& convert);
[[nodiscard]] Subcommand add_bundle(CLI::App& app);
[[nodiscard]] Subcommand add_collect(CLI::App& app);
[[nodiscard]] Subcommand add_train(CLI::App& app);
[[nodiscard]] Subcommand add_devices(CLI::App& app);

/// A command line that its subcommand finds wrong after parsing: ExitCode::usage.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace spjit::cli

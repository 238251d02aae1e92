#pragma once

/// @file
/// What the exit status of `spjit` means; docs/cli.md and --help say the same.

#include <cstddef>

namespace spjit::cli {

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

}  // namespace spjit::cli

#pragma once

#include <cstdint>
#include <span>

#include "emulated_driver/machine.hpp"
#include "emulated_driver/sass/observer.hpp"
#include "emulated_driver/sass/sass_program.hpp"

namespace spjit::emulated {

/// Memory that a launch reads and writes besides its program.
struct SassLaunch {
  LaunchShape shape;
  std::span<const std::uint8_t> parameters;  ///< as many bytes as the kernel has
  LaunchObserver* observer = nullptr;        ///< told of every instruction, or null
};

/// Runs a kernel on every block of the grid, one block after another; a block's warps take turns
/// between its barriers, 32 lanes in step. Throws ProgramError with the function, the offset and
/// the instruction; memory then holds what was written until then.
LaunchStatistics run_sass(const SassProgram& program, const SassKernel& kernel,
                          const SassLaunch& launch, GlobalMemory& memory);

}  // namespace spjit::emulated

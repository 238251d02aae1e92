#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "emulated_driver/program.hpp"

namespace spjit::emulated {

struct LaunchShape {
  std::array<std::uint32_t, 3> grid = {1, 1, 1};
  std::array<std::uint32_t, 3> block = {1, 1, 1};
  std::uint32_t dynamic_shared_bytes = 0;
};

struct LaunchStatistics {
  std::uint64_t instructions = 0;  ///< executed, of all threads; predicated-off ones count
};

/// Runs `entry` on every block of the grid, one block after another; a block's threads take turns
/// between barriers. `parameters` are the entry's `parameter_bytes`. Throws ProgramError with the
/// line, its text, the thread and the block; memory then holds what was written until then.
LaunchStatistics run_grid(const Program& program, const Function& entry, const LaunchShape& shape,
                          std::span<const std::uint8_t> parameters, GlobalMemory& memory);

}  // namespace spjit::emulated

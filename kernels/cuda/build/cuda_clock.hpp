#pragma once

/// @file
/// The launch of one of spjit's kernels as the clock asks for it, with operands that are nowhere.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "clock/cubin_clock.hpp"
#include "spjit/problem.hpp"

namespace spjit {

/// Blocks and threads of a launch.
struct ClockShape {
  std::array<std::uint32_t, 3> grid = {1, 1, 1};
  std::array<std::uint32_t, 3> block = {1, 1, 1};
  std::int64_t dynamic_shared_bytes = 0;
};

/// The launch of `kernel` in a cubin with the parameters of CudaParameters, for one product of the
/// problem: sizes are its own, operands lie where none meets another. Parameters that a family adds
/// are not known: throws NotSupported for a kernel with more than the common ones, Error for a
/// cubin without the kernel.
[[nodiscard]] ClockLaunch clock_launch(const Problem& problem, std::span<const std::byte> cubin,
                                       const char* kernel, const ClockShape& shape);

}  // namespace spjit

#pragma once

/// @file
/// How many blocks of a kernel an SM runs at once, and what stops it from running more.
///
/// The rules are those of NVIDIA's occupancy calculator (cuda_occupancy.h of the CUDA toolkit), for
/// kernels with at most one block barrier and with all of the SM's shared memory available. Unit
/// tests compare both where a toolkit is installed.

#include <cstdint>
#include <limits>
#include <optional>

#include "runtime/cuda/cuda_device_info.hpp"

namespace spjit {

/// The needs of one block of a kernel.
struct BlockResources {
  std::int64_t threads = 0;               ///< >= 1
  std::int64_t registers_per_thread = 0;  ///< as the compiler reports them; >= 0
  std::int64_t static_shared_bytes = 0;   ///< without the driver's reserve; >= 0
  std::int64_t dynamic_shared_bytes = 0;  ///< >= 0
};

/// A block count that nothing limits: the block uses none of the resource.
inline constexpr std::int64_t k_unlimited_blocks = std::numeric_limits<std::int32_t>::max();

/// Blocks an SM holds at once, in all and as each resource alone would allow.
struct Occupancy {
  std::int64_t active_blocks = 0;  ///< an SM; 0: the kernel cannot be launched
  std::int64_t active_warps = 0;   ///< an SM
  std::int64_t blocks_by_warps = 0;
  std::int64_t blocks_by_registers = 0;
  std::int64_t blocks_by_shared_memory = 0;
  std::int64_t blocks_by_slots = 0;  ///< the SM's block slots

  /// Resources of a block, rounded up to allocation units; 0 where it asks for more than it may
  /// have.
  std::int64_t allocated_registers = 0;
  std::int64_t allocated_shared_bytes = 0;  ///< with the driver's reserve
};

/// Throws InvalidArgument for less than one thread or anything negative. A block over a limit of
/// the device is no error: it has 0 active blocks, limited by what it has too much of.
[[nodiscard]] Occupancy occupancy(const CudaDeviceInfo& limits, const BlockResources& block);

/// Dynamic shared bytes a block that make exactly `active_blocks` blocks of this kernel active on
/// an SM: what gives a proxy the occupancy of the kernel it stands for.
/// `block.dynamic_shared_bytes` is kept where it already gives that many; otherwise it is the most
/// that still allows them (LO-SpMM: shared memory of an SM / active blocks - reserve). None if the
/// kernel cannot have so many, or has to have fewer. Throws InvalidArgument as `occupancy()` does,
/// and for `active_blocks` < 1.
[[nodiscard]] std::optional<std::int64_t> dynamic_shared_for(const CudaDeviceInfo& limits,
                                                             const BlockResources& block,
                                                             std::int64_t active_blocks);

}  // namespace spjit

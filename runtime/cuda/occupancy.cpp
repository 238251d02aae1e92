#include "runtime/cuda/occupancy.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/arithmetic.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

void require_sensible(const BlockResources& block) {
  if (block.threads >= 1 && block.registers_per_thread >= 0 && block.static_shared_bytes >= 0 &&
      block.dynamic_shared_bytes >= 0) {
    return;
  }
  throw InvalidArgument(fmt::format(
      "occupancy of a block of {} threads, {} registers a thread, {} static and {} dynamic shared "
      "bytes; expected at least one thread and nothing negative",
      block.threads, block.registers_per_thread, block.static_shared_bytes,
      block.dynamic_shared_bytes));
}

std::int64_t warps_per_block(const CudaDeviceInfo& limits, const BlockResources& block) {
  return (block.threads + limits.warp_size - 1) / limits.warp_size;
}

/// What a block is given of one resource, and how many such blocks fit; zeros: it may not have it.
struct Share {
  std::int64_t allocated = 0;
  std::int64_t blocks = 0;
};

Share share_of_registers(const CudaDeviceInfo& limits, const BlockResources& block) {
  if (block.threads > limits.threads_per_block) return {};
  if (block.registers_per_thread > limits.registers_per_thread) return {};
  const std::int64_t warps = warps_per_block(limits, block);
  const std::int64_t warp_registers =
      round_up(block.registers_per_thread * limits.warp_size, limits.register_allocation_unit);
  const std::int64_t allocated = warp_registers * warps;
  if (allocated == 0) return {0, k_unlimited_blocks};
  // The launch check counts as if every sub-partition got the same number of warps.
  const std::int64_t checked = warp_registers * round_up(warps, limits.sub_partitions);
  if (checked > limits.registers_per_block) return {};
  // A warp's registers lie in one sub-partition, so what is left over in each is lost.
  const std::int64_t sm_warps =
      limits.registers_per_sm / limits.sub_partitions / warp_registers * limits.sub_partitions;
  return {allocated, sm_warps / warps};
}

/// The most a block can be given, the driver's reserve included.
std::int64_t most_shared_bytes(const CudaDeviceInfo& limits) {
  return limits.shared_per_block_optin_bytes + limits.reserved_shared_per_block_bytes;
}

Share share_of_shared_memory(const CudaDeviceInfo& limits, const BlockResources& block) {
  const std::int64_t most = most_shared_bytes(limits);
  // Compared one by one first: the sum of two absurd sizes would overflow.
  if (block.static_shared_bytes > most || block.dynamic_shared_bytes > most) return {};
  const std::int64_t used = block.static_shared_bytes + block.dynamic_shared_bytes +
                            limits.reserved_shared_per_block_bytes;
  const std::int64_t allocated = round_up(used, limits.shared_allocation_unit_bytes);
  if (allocated == 0) return {0, k_unlimited_blocks};
  if (allocated > most) return {};
  return {allocated, limits.shared_per_sm_bytes / allocated};
}

}  // namespace

Occupancy occupancy(const CudaDeviceInfo& limits, const BlockResources& block) {
  require_sensible(block);
  const Share registers = share_of_registers(limits, block);
  const Share shared = share_of_shared_memory(limits, block);
  Occupancy result;
  result.allocated_registers = registers.allocated;
  result.allocated_shared_bytes = shared.allocated;
  result.blocks_by_registers = registers.blocks;
  result.blocks_by_shared_memory = shared.blocks;
  result.blocks_by_slots = limits.blocks_per_sm;
  if (block.threads > limits.threads_per_block) return result;
  const std::int64_t warps = warps_per_block(limits, block);
  result.blocks_by_warps = limits.warps_per_sm() / warps;
  result.active_blocks =
      std::min({result.blocks_by_warps, registers.blocks, shared.blocks, result.blocks_by_slots});
  result.active_warps = result.active_blocks * warps;
  return result;
}

std::optional<std::int64_t> dynamic_shared_for(const CudaDeviceInfo& limits,
                                               const BlockResources& block,
                                               std::int64_t active_blocks) {
  if (active_blocks < 1) {
    throw InvalidArgument(fmt::format(
        "dynamic shared memory for {} active blocks; expected 1 or more", active_blocks));
  }
  if (occupancy(limits, block).active_blocks == active_blocks) return block.dynamic_shared_bytes;

  const std::int64_t unit = limits.shared_allocation_unit_bytes;
  const std::int64_t share = limits.shared_per_sm_bytes / active_blocks / unit * unit;
  BlockResources forced = block;
  forced.dynamic_shared_bytes = std::min(share, most_shared_bytes(limits)) -
                                limits.reserved_shared_per_block_bytes - block.static_shared_bytes;
  if (forced.dynamic_shared_bytes < 0) return std::nullopt;
  if (occupancy(limits, forced).active_blocks != active_blocks) return std::nullopt;
  return forced.dynamic_shared_bytes;
}

}  // namespace spjit

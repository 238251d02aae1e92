#pragma once

/// @file
/// The host's tile space and its hardware rules.

#include <cstdint>
#include <functional>

#include "base/cancel.hpp"
#include "kernels/unrolled_host/tile_candidate.hpp"
#include "runtime/host/host_device_info.hpp"
#include "spjit/options.hpp"
#include "spjit/problem.hpp"

namespace spjit {

/// The statistics of a grouping by M1: of a real one, or estimated.
using DescribeGrouping = std::function<GroupingStatistics(std::int64_t m1)>;

/// All tiles for a problem on the host: shapes that fill the register file x blocks of k x panel
/// groups x row groups x packing x weight forms, each checked against the rules. If none is left,
/// rules are relaxed in the order balance, utilisation, until one is (registers and the code budget
/// never are). Blocks of k are left out where most would be empty, and packing where B is mostly
/// unread. Throws what `cancel` throws soon after it is reached.
[[nodiscard]] TileSpace enumerate_host_tiles(const Problem& problem, const CompileOptions& options,
                                             const HostDeviceInfo& limits,
                                             const DescribeGrouping& describe,
                                             const Cancellation& cancel = {});

/// The candidate for one tile: statistics and the first rule that drops it.
[[nodiscard]] TileCandidate examine_host_tile(const Problem& problem, const HostTile& tile,
                                              const CompileOptions& options,
                                              const HostDeviceInfo& limits,
                                              const GroupingStatistics& grouping);

/// Machine code of a tile in bytes, from counts: instructions x their usual size. Never below what
/// the emitter makes; at most 1.10 times it for one-vector AVX-512 tiles, up to 1.64 times it for
/// others, where columns of a single entry need less
/// (tests/unit/kernels/unrolled_host/tile_space_test.cpp).
[[nodiscard]] std::int64_t estimate_code_bytes(const HostTile& tile, HostIsa isa, std::int64_t nnz,
                                               std::int64_t nnc_sum, std::int64_t segments);

}  // namespace spjit

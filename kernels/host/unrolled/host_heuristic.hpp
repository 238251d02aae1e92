#pragma once

/// @file
/// The host tile chosen by rules from measurements; docs/results/host.md has the figures.

#include <cstdint>
#include <string>

#include "kernels/host/unrolled/host_tile.hpp"
#include "plan/workload.hpp"
#include "runtime/host/host_device_info.hpp"

namespace spjit {

/// A tile and why, in one line.
struct HostChoice {
  HostTile tile;
  std::string reason;
};

/// HostTile::join_bytes of a tile whose other members are chosen; 0 where joining does not pay.
[[nodiscard]] std::int64_t joined_code_bytes(const Workload& problem, const HostDeviceInfo& limits,
                                             const HostTile& tile);

/// The tile alone; well under a microsecond. Deterministic. It fits the register file of `limits`.
[[nodiscard]] HostTile host_tile_by_rules(const Workload& problem, const HostDeviceInfo& limits);

/// The tile with the reason.
[[nodiscard]] HostChoice choose_host_tile(const Workload& problem, const HostDeviceInfo& limits);

}  // namespace spjit

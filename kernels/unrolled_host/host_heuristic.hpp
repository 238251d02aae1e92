#pragma once

/// @file
/// The host tile chosen by rules from measurements; docs/host-kernel.md has the figures.

#include <cstdint>
#include <string>

#include "kernels/unrolled_host/host_tile.hpp"
#include "plan/workload.hpp"
#include "runtime/host/host_device_info.hpp"

namespace spjit {

/// A tile and why, in one line.
struct HostChoice {
  HostTile tile;
  std::string reason;
};

/// The largest power of two, at most 64 KiB, that divides the bytes between rows of B (`ldb` floats
/// apart). The same columns of rows so aligned share that much fewer sets of the caches: from 4 KiB
/// on one set of L1, at 64 KiB one of L2. Below 64 bytes rows straddle cache lines.
[[nodiscard]] std::int64_t row_alignment_bytes(std::int64_t ldb);

/// The tile alone; well under a microsecond. Deterministic. It fits the register file of `limits`.
[[nodiscard]] HostTile host_tile_by_rules(const Workload& problem, const HostDeviceInfo& limits);

/// The same with the reason.
[[nodiscard]] HostChoice choose_host_tile(const Workload& problem, const HostDeviceInfo& limits);

}  // namespace spjit

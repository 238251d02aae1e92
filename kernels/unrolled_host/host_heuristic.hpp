#pragma once

/// @file
/// The host tile chosen by rules from measurements; docs/host-kernel.md has the figures.

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/unrolled_host/host_tile.hpp"
#include "runtime/host/host_device_info.hpp"

namespace spjit {

/// What the rules look at.
struct HostProblem {
  std::int64_t rows = 0;  ///< non-empty rows of A
  std::int64_t cols = 0;  ///< k
  std::int64_t nnz = 0;
  std::int64_t n = 1;
  std::int64_t ldb = 1;
  std::int64_t threads = 1;
  std::optional<std::int64_t> panel_columns;  ///< forced panel width
};

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
[[nodiscard]] HostTile host_tile_by_rules(const HostProblem& problem, const HostDeviceInfo& limits);

/// The same with the reason.
[[nodiscard]] HostChoice choose_host_tile(const HostProblem& problem, const HostDeviceInfo& limits);

}  // namespace spjit

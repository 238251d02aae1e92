#pragma once

/// @file
/// Host kernels that cost less to make and to time than the ones they stand for, and rank the same.
/// docs/results/search.md says what was measured for each rule and constant.

#include <cstdint>

#include "kernels/host/unrolled/host_program.hpp"
#include "kernels/host/unrolled/host_tile.hpp"
#include "plan/kernel_plan.hpp"
#include "plan/workload.hpp"

namespace spjit {

/// Which reductions are made; each can be turned off to see what it is worth.
struct HostReductions {
  /// One emitted kernel for all loop orders (panel and row groups) of a tile: they are run-time
  /// numbers.
  bool kernels = true;
  /// Row tiles are clustered by (loads, FMAs); one tile a cluster is emitted, and its code and
  /// weights are copied once for each member. Copies, not one shared tile, because code beyond L1I
  /// or L2 costs: the proxy has the footprint of the kernel.
  bool tiles = true;
  /// A call works on a window of B's columns, the next call on the next window: what a kernel does
  /// in one run is spread over calls, with all of B and C passing through the caches.
  bool columns = true;
  /// Tiles are cut to HostProxyLimits::iterations / density columns, as on a GPU. Off: it shrinks
  /// B's footprint against L1D and L2, and with it the ranking.
  bool iterations = false;
};

/// Sizes of a host proxy. The defaults were found by measurement.
struct HostProxyLimits {
  std::int64_t clusters = 8;  ///< row tiles emitted at most, but for `b_rows`
  /// The tiles emitted load this many rows of B for each there is, so that they touch 95 % of B
  /// (1 - e^-3) as a kernel does; with 8 tiles of two rows half of B stayed untouched and its
  /// misses uncounted.
  double b_rows = 3;
  std::int64_t window_fmas = 10'000'000;  ///< of a call at least: 0.1 to 0.2 ms on one core
  double iterations = 300;                ///< columns x density of a tile at most, where cut
};

/// How a proxy is made.
struct HostProxyOptions {
  HostReductions reductions = {};
  HostProxyLimits limits = {};
  Cancellation cancel = {};  ///< asked while the code is made
};

/// Columns of B and C that a call of the proxy works on: whole panel groups, one for each thread at
/// least, with `limits.window_fmas` in all; 0: all n. With row groups all, since the panels that
/// pass while a group's code is hot are what such an order is about.
[[nodiscard]] std::int64_t window_columns(const HostTile& tile, std::int64_t panel_columns,
                                          const Workload& work, const HostProxyLimits& limits);

/// Row tiles that are emitted for a plan.
[[nodiscard]] std::int64_t proxy_clusters(const KernelPlan& plan, const HostProxyLimits& limits);

/// The kernel of a plan with fewer different row tiles; the same as make_unrolled_artifact() makes
/// where the plan has no more than that many, or tiles are joined. Its results are meaningless, and
/// of C it writes only rows that belong to C. `plan`: one block of columns.
[[nodiscard]] HostArtifact make_host_proxy(const KernelPlan& plan, const HostTile& tile,
                                           const Problem& problem, HostIsa isa,
                                           const HostProxyOptions& options);

/// An artifact with other tiles in the place of its own: tile i of the result is a copy of tile
/// `copied_tiles[i]`, code and weights. Sizes of C stay.
[[nodiscard]] HostArtifact copy_tiles(const HostArtifact& artifact,
                                      const std::vector<std::int32_t>& copied_tiles);

/// The artifact's code in another loop order: `tile` must have the shape, block and packing of the
/// artifact's. Throws InvalidArgument if not.
[[nodiscard]] HostArtifact with_loop_order(const HostArtifact& artifact, const HostTile& tile);

/// Whether one emitted kernel serves both.
[[nodiscard]] bool share_code(const HostTile& left, const HostTile& right);

}  // namespace spjit

#pragma once

/// @file
/// The order in which tiles of the host are tried: by a rank model, else by the prior.

#include <string>
#include <vector>

#include "kernels/host/unrolled/host_prior.hpp"
#include "kernels/host/unrolled/shipped_models.hpp"
#include "kernels/host/unrolled/tile_space.hpp"
#include "runtime/host/host_device_info.hpp"

namespace spjit {

/// A tile and its place in a ranking.
struct RankedHostTile {
  TileCandidate candidate;
  double score = 0;  ///< larger is better
};

/// The candidates, best first; equal ones in their order. The score is the model's, or -estimated
/// microseconds without one. Of the candidates' groupings only what EstimatedGrouping sets is
/// looked at.
[[nodiscard]] std::vector<RankedHostTile> rank_host_tiles(std::vector<TileCandidate> survivors,
                                                          const Workload& work,
                                                          const HostDeviceInfo& limits,
                                                          const LoadedRankModel* model);

}  // namespace spjit

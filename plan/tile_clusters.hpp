#pragma once

/// @file
/// Row tiles that are alike, so that one of a proxy's blocks can stand for many (LO-SpMM, block
/// reduction).

#include <cstdint>
#include <span>
#include <vector>

namespace spjit {

/// The costs of a row tile: rows of B it loads, and its nonzeros.
struct TileCost {
  std::int64_t loads = 0;
  std::int64_t fmas = 0;

  friend bool operator==(const TileCost&, const TileCost&) = default;
};

/// Tiles that are alike. Members are ascending.
struct TileCluster {
  std::vector<std::int64_t> tiles;
  double loads = 0;  ///< mean over the tiles
  double fmas = 0;   ///< mean over the tiles
};

/// Groups tiles agglomeratively into at most `most_clusters` clusters: the two whose union adds
/// least to the sum of squared distances from the means are joined (Ward's linkage) until no more
/// than that many are left. Ward, not average linkage, because a cluster's mean is what its proxy
/// block is made like: the sum that Ward keeps small is the error of that. Distances are between
/// (loads, FMAs), each divided by its mean, so that both count alike. Tiles of equal cost are
/// always together; clusters are ordered by their first tile. Deterministic.
///
/// Time and memory are quadratic in the number of different costs, of which at most
/// k_most_distinct_costs are kept apart: with more of them, costs are first rounded to a coarser
/// and coarser grid. Throws InvalidArgument for `most_clusters` < 1 or a negative cost.
[[nodiscard]] std::vector<TileCluster> cluster_tiles(std::span<const TileCost> tiles,
                                                     std::int64_t most_clusters);

inline constexpr std::int64_t k_most_distinct_costs = 1024;

}  // namespace spjit

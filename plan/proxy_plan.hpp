#pragma once

/// @file
/// A small plan that stands in for a large one while tiles are timed (LO-SpMM, ACM TACO 2024,
/// section 5).

#include <cstdint>
#include <vector>

#include "plan/kernel_plan.hpp"
#include "plan/tile_clusters.hpp"

namespace spjit {

/// The paper's constants.
struct ProxyOptions {
  std::int64_t active_blocks = 1;     ///< blocks of the kernel that an SM holds at once
  std::int64_t clusters_a_block = 3;  ///< clusters = this x active_blocks
  /// Columns a tile keeps: at most this / density of the matrix.
  double iterations = 300;
  bool reduce_blocks = true;      ///< off: every tile of the plan has one of its own
  bool reduce_iterations = true;  ///< off: tiles keep all columns
};

/// A KernelPlan like any other (any emitter takes it) for a matrix that does not exist.
struct ProxyPlan {
  KernelPlan plan;                    ///< tile i stands for cluster i
  std::vector<TileCluster> clusters;  ///< of the tiles of the plan it stands for
  std::int64_t most_columns = 0;      ///< that a tile may have; what was longer is cut

  /// The cluster of each tile of the plan it stands for.
  [[nodiscard]] std::vector<std::int32_t> clusters_of_tiles() const;
};

/// Builds the proxy of a plan with one block of columns.
///
/// Each tile of the proxy has as many columns as its cluster's tiles load on average and as many
/// entries as they have nonzeros, rounded; both shrink alike where the columns are cut. Columns are
/// spread over those of the cluster's tile with most of them. Where that tile has too many entries
/// the fullest columns lose some, where it has too few other rows of the tile get some. No tile
/// has more rows, columns or entries than the largest of its cluster. Values are ones that no two
/// entries share, so that nothing can be computed once for both. Empty rows are left out.
/// Throws InvalidArgument for a plan with several blocks of columns and options below 1.
[[nodiscard]] ProxyPlan build_proxy(const KernelPlan& plan, const ProxyOptions& options);

}  // namespace spjit

#pragma once

/// @file
/// Features of the rank model of host tiles: a matrix, a tile, a device as numbers.

#include <vector>

#include "kernels/host/unrolled/host_heuristic.hpp"
#include "kernels/host/unrolled/host_prior.hpp"
#include "kernels/host/unrolled/tile_space.hpp"
#include "rankmodel/feature_schema.hpp"
#include "runtime/host/host_device_info.hpp"

namespace spjit {

/// The schema of host_feature_row(). Table 1 of LO-SpMM (ACM TACO 2024) has nine of them. What it
/// calls the largest nnz of a tile is left out: it needs the rows grouped, which takes longer than
/// all else in a ranking.
[[nodiscard]] const FeatureSchema& host_feature_schema();

/// The work as the rules that choose a tile see it: rows of B without gaps, no forced panel.
[[nodiscard]] Workload contiguous(Workload work);

/// One number a feature, in the schema's order. Of `candidate.grouping` only what
/// EstimatedGrouping sets is looked at. Sizes are logarithms and footprints are over the
/// device's caches, so that a model of one device has a chance on another. All finite.
[[nodiscard]] std::vector<float> host_feature_row(const TileCandidate& candidate,
                                                  const Workload& work,
                                                  const HostDeviceInfo& limits);

}  // namespace spjit

#pragma once

/// @file
/// Features of a rank model of GPU tiles: a matrix, a tile, a card as numbers.

#include <span>
#include <vector>

#include "kernels/cuda/unrolled/cuda_candidate.hpp"
#include "rankmodel/feature_schema.hpp"
#include "runtime/cuda/cuda_device_info.hpp"

namespace spjit {

/// The schema of cuda_feature_rows(): Table 1 of LO-SpMM (ACM TACO 2024), then the matrix,
/// occupancy, waves, code, footprints, and what the prior says.
[[nodiscard]] const FeatureSchema& cuda_feature_schema();

/// [candidates x features] One row after the other, each in the schema's order. All finite. The
/// candidates are those of one matrix and n on one device: some numbers are relative to the best of
/// them by the prior.
[[nodiscard]] std::vector<float> cuda_feature_rows(std::span<const CudaCandidate> candidates,
                                                   const CudaDeviceInfo& limits);

}  // namespace spjit

#pragma once

/// @file
/// What a rank model of GPU tiles looks at: a matrix, a tile, a card as numbers.

#include <vector>

#include "kernels/unrolled_cuda/cuda_candidate.hpp"
#include "rankmodel/feature_schema.hpp"
#include "runtime/cuda/cuda_device_info.hpp"

namespace spjit {

/// The schema of cuda_feature_row(): Table 1 of LO-SpMM (ACM TACO 2024), then occupancy, waves,
/// code and footprints.
[[nodiscard]] const FeatureSchema& cuda_feature_schema();

/// One number a feature, in the schema's order. All finite.
[[nodiscard]] std::vector<float> cuda_feature_row(const CudaCandidate& candidate,
                                                  const CudaDeviceInfo& limits);

}  // namespace spjit

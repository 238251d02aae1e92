#pragma once

/// @file
/// From timed tiles of GPUs to groups that a model is trained on.

#include <span>
#include <vector>

#include "kernels/cuda/unrolled/cuda_samples.hpp"
#include "kernels/tuning/sample_training.hpp"

namespace spjit {

/// training_groups() with the features of cuda_feature_schema().
[[nodiscard]] std::vector<TrainingGroup> cuda_training_groups(
    std::span<const CudaSampleGroup> samples);

}  // namespace spjit

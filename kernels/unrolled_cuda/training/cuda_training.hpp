#pragma once

/// @file
/// From timed tiles of GPUs to groups that a model is trained on.

#include <span>
#include <vector>

#include "kernels/sample_training.hpp"
#include "kernels/unrolled_cuda/cuda_samples.hpp"

namespace spjit {

/// training_groups() with the features of cuda_feature_schema().
[[nodiscard]] std::vector<TrainingGroup> cuda_training_groups(
    std::span<const CudaSampleGroup> samples);

}  // namespace spjit

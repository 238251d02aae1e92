#pragma once

/// @file
/// From measured tiles of the host to groups that a model is trained on.

#include <span>
#include <string>
#include <vector>

#include "kernels/host/unrolled/host_samples.hpp"
#include "kernels/tuning/sample_training.hpp"

namespace spjit {

/// training_groups() with the features of host_feature_schema().
[[nodiscard]] std::vector<TrainingGroup> host_training_groups(
    std::span<const HostSampleGroup> samples);

/// training_options() of host_feature_schema().
[[nodiscard]] TrainingOptions host_training_options(const std::string& name);

}  // namespace spjit

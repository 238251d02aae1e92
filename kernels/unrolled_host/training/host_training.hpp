#pragma once

/// @file
/// From measured tiles to groups that a model is trained on.

#include <span>
#include <string>
#include <vector>

#include "kernels/unrolled_host/host_samples.hpp"
#include "rankmodel/training/rank_training.hpp"

namespace spjit {

/// Groups of at least two tiles that ran, with the features of host_feature_schema(); a group that
/// leaves nothing to rank is left out.
[[nodiscard]] std::vector<TrainingGroup> host_training_groups(
    std::span<const HostSampleGroup> samples);

/// Options for models of the host: name, schema and features filled in, the rest as measured best
/// (docs/rank-model.md).
[[nodiscard]] TrainingOptions host_training_options(const std::string& name);

/// The groups of `few` matrices, drawn by the seed: all groups of a matrix, whatever their n.
[[nodiscard]] std::vector<HostSampleGroup> draw_matrices(std::span<const HostSampleGroup> samples,
                                                         std::size_t few, std::uint32_t seed);

}  // namespace spjit

#pragma once

/// @file
/// From samples of any family to groups that a model is trained on.

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "kernels/tuning/training/tuned_family.hpp"
#include "rankmodel/feature_schema.hpp"
#include "rankmodel/training/rank_training.hpp"

namespace spjit {

/// Groups of at least two tiles that ran; a group that leaves nothing to rank is left out.
[[nodiscard]] std::vector<TrainingGroup> training_groups(std::vector<SampledTiles> samples);

/// Options for models of these features: name, schema and features filled in, the rest as measured
/// best on the host (docs/design/ranking.md).
[[nodiscard]] TrainingOptions training_options(const std::string& name,
                                               const FeatureSchema& schema);

/// Sets RankObjective::relative_time and the options that were best with it, by cross-validation
/// over 113 drawn matrices of an H100 and an H200 (docs/results/search.md).
void set_relative_time(TrainingOptions& options);

/// Draws `few` different texts of recipes, which may repeat, by the seed. Whether one is
/// drawn before another does not depend on the rest.
[[nodiscard]] std::set<std::string> draw_recipes(std::span<const std::string> recipes,
                                                 std::size_t few, std::uint32_t seed);

/// The groups of `few` matrices, drawn by the seed: all groups of a matrix, whatever their n.
[[nodiscard]] std::vector<SampleLine> draw_matrices(std::vector<SampleLine> samples,
                                                    std::size_t few, std::uint32_t seed);

}  // namespace spjit

#pragma once

/// @file
/// From samples of any family to groups that a model is trained on.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/tuning/tile_samples.hpp"
#include "rankmodel/feature_schema.hpp"
#include "rankmodel/training/rank_training.hpp"

namespace spjit {

/// Groups of at least two tiles that ran; a group that leaves nothing to rank is left out.
/// `rows_of`: [tiles x features] of a group, by the schema.
template <class Candidate, class DeviceInfo, class RowsOf>
[[nodiscard]] std::vector<TrainingGroup> training_groups(
    std::span<const SampleGroup<Candidate, DeviceInfo>> samples, const FeatureSchema& schema,
    const RowsOf& rows_of) {
  std::vector<TrainingGroup> groups;
  for (const SampleGroup<Candidate, DeviceInfo>& from : samples) {
    TrainingGroup group;
    group.name = from.name;
    group.columns = schema.features.size();
    std::size_t ran = 0;
    for (const TileSample<Candidate>& sample : from.samples) {
      group.times_us.push_back(sample.us > 0 ? sample.us : std::numeric_limits<double>::infinity());
      if (sample.us > 0) ++ran;
    }
    if (ran < 2) continue;
    group.rows = rows_of(from);
    groups.push_back(std::move(group));
  }
  return groups;
}

/// Options for models of these features: name, schema and features filled in, the rest as measured
/// best on the host (docs/design/ranking.md).
[[nodiscard]] TrainingOptions training_options(const std::string& name,
                                               const FeatureSchema& schema);

/// Draws `few` different texts of recipes, which may repeat, by the seed. Whether one is
/// drawn before another does not depend on the rest.
[[nodiscard]] std::set<std::string> draw_recipes(std::span<const std::string> recipes,
                                                 std::size_t few, std::uint32_t seed);

/// The groups of `few` matrices, drawn by the seed: all groups of a matrix, whatever their n.
template <class Group>
[[nodiscard]] std::vector<Group> draw_matrices(const std::vector<Group>& samples, std::size_t few,
                                               std::uint32_t seed) {
  std::vector<std::string> recipes;
  recipes.reserve(samples.size());
  for (const Group& group : samples) recipes.push_back(group.recipe.dump());
  const std::set<std::string> drawn = draw_recipes(recipes, few, seed);
  std::vector<Group> result;
  std::ranges::copy_if(samples, std::back_inserter(result),
                       [&](const Group& group) { return drawn.contains(group.recipe.dump()); });
  return result;
}

}  // namespace spjit

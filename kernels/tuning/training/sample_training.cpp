#include "kernels/tuning/training/sample_training.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/hash.hpp"

namespace spjit {

std::vector<TrainingGroup> training_groups(std::vector<SampledTiles> samples) {
  std::vector<TrainingGroup> groups;
  for (SampledTiles& from : samples) {
    const auto ran =
        std::ranges::count_if(from.times_us, [](double us) { return std::isfinite(us); });
    if (ran < 2) continue;
    const std::size_t columns = from.features.size() / from.tiles.size();
    groups.push_back(
        {std::move(from.name), std::move(from.features), columns, std::move(from.times_us)});
  }
  return groups;
}

TrainingOptions training_options(const std::string& name, const FeatureSchema& schema) {
  TrainingOptions options;
  options.name = name;
  options.schema = schema.name;
  options.schema_version = schema.version;
  options.features = schema.names();
  options.l2 = 1;
  options.colsample = 0.7;
  options.refit = true;
  return options;
}

void set_relative_time(TrainingOptions& options) {
  options.objective = RankObjective::relative_time;
  options.rounds = 600;
  options.depth = 5;
  options.learning_rate = 0.04;
  options.min_child_weight = 3;
  options.subsample = 0.7;
  options.colsample = 0.3;
  options.slower_weight = 0.37;
  options.validation_share = 0;
}

std::set<std::string> draw_recipes(std::span<const std::string> recipes, std::size_t few,
                                   std::uint32_t seed) {
  // In the order of a hash of seed and recipe, which does not depend on the other matrices.
  std::set<std::pair<std::string, std::string>> matrices;
  for (const std::string& recipe : recipes) {
    matrices.emplace(KeyBuilder().field("seed", std::int64_t{seed}).field("recipe", recipe).hex(),
                     recipe);
  }
  std::set<std::string> drawn;
  for (const auto& [hash, recipe] : matrices) {
    if (drawn.size() < few) drawn.insert(recipe);
  }
  return drawn;
}

std::vector<SampleLine> draw_matrices(std::vector<SampleLine> samples, std::size_t few,
                                      std::uint32_t seed) {
  std::vector<std::string> recipes;
  recipes.reserve(samples.size());
  for (const SampleLine& line : samples) recipes.push_back(line.recipe.dump());
  const std::set<std::string> drawn = draw_recipes(recipes, few, seed);
  std::erase_if(samples,
                [&](const SampleLine& line) { return !drawn.contains(line.recipe.dump()); });
  return samples;
}

}  // namespace spjit

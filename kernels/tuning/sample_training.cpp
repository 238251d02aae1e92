#include "kernels/tuning/sample_training.hpp"

#include "base/hash.hpp"

namespace spjit {

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

}  // namespace spjit

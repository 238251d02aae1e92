#include "kernels/unrolled_host/training/host_training.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "base/hash.hpp"
#include "kernels/unrolled_host/host_features.hpp"

namespace spjit {

std::vector<TrainingGroup> host_training_groups(std::span<const HostSampleGroup> samples) {
  std::vector<TrainingGroup> groups;
  for (const HostSampleGroup& from : samples) {
    TrainingGroup group;
    group.name = from.name;
    group.columns = host_feature_schema().features.size();
    std::size_t ran = 0;
    for (const HostSample& sample : from.samples) {
      const std::vector<float> row = host_feature_row(sample.candidate, from.work, from.limits);
      group.rows.insert(group.rows.end(), row.begin(), row.end());
      group.times_us.push_back(sample.us > 0 ? sample.us : std::numeric_limits<double>::infinity());
      if (sample.us > 0) ++ran;
    }
    if (ran > 1) groups.push_back(std::move(group));
  }
  return groups;
}

TrainingOptions host_training_options(const std::string& name) {
  TrainingOptions options;
  options.name = name;
  options.schema = host_feature_schema().name;
  options.schema_version = host_feature_schema().version;
  options.features = host_feature_schema().names();
  options.l2 = 1;
  options.colsample = 0.7;
  options.refit = true;
  return options;
}

std::vector<HostSampleGroup> draw_matrices(std::span<const HostSampleGroup> samples,
                                           std::size_t few, std::uint32_t seed) {
  // In the order of a hash of seed and recipe, which does not depend on the other matrices.
  std::set<std::pair<std::string, std::string>> matrices;
  for (const HostSampleGroup& group : samples) {
    const std::string recipe = group.recipe.dump();
    matrices.emplace(KeyBuilder().field("seed", std::int64_t{seed}).field("recipe", recipe).hex(),
                     recipe);
  }
  std::set<std::string> drawn;
  for (const auto& [hash, recipe] : matrices) {
    if (drawn.size() < few) drawn.insert(recipe);
  }
  std::vector<HostSampleGroup> result;
  std::ranges::copy_if(samples, std::back_inserter(result), [&](const HostSampleGroup& group) {
    return drawn.contains(group.recipe.dump());
  });
  return result;
}

}  // namespace spjit

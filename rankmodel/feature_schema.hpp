#pragma once

/// @file
/// Which numbers a rank model looks at, in which order: the contract between what computes them,
/// what trains and what scores.

#include <span>
#include <string>
#include <vector>

namespace spjit {

/// One of them.
struct Feature {
  const char* name;
  const char* unit;  ///< "log2 rows", "1" for a share or a count
  const char* meaning;
};

/// A versioned list of features. The version is raised whenever a feature is added, removed, moved
/// or means something else: a model fits exactly one version.
struct FeatureSchema {
  const char* name;  ///< "host", "cuda"
  int version;
  std::span<const Feature> features;

  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const Feature& feature : features) result.emplace_back(feature.name);
    return result;
  }
};

}  // namespace spjit

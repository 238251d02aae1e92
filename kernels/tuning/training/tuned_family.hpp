#pragma once

/// @file
/// A family whose tiles are timed to train rank models: what `spjit train` and benchmarks ask it.

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/tuning/tile_samples.hpp"
#include "rankmodel/feature_schema.hpp"

namespace spjit {

/// The tiles of a line of samples as a ranking sees them.
struct SampledTiles {
  std::string name;         ///< of the group
  std::string device = {};  ///< that the tiles are for: "sm_90:h100"
  std::vector<std::string> tiles = {};
  std::vector<double> times_us = {};  ///< infinite: it did not run, or has no time yet
  std::vector<float> features = {};   ///< [tiles x features of the schema]
  std::vector<double> prior = {};     ///< scores of the formula, larger is better
  /// 1 for the tile that the rules of mode `instant` choose, 0 for the others; empty: no rules.
  std::vector<double> rules = {};
};

/// Writes the members that a family does not write itself.
template <class Candidate, class DeviceInfo>
[[nodiscard]] SampledTiles tiles_of(const SampleGroup<Candidate, DeviceInfo>& group) {
  SampledTiles result{group.name};
  for (const TileSample<Candidate>& sample : group.samples) {
    result.tiles.push_back(to_string(sample.candidate.tile));
    result.times_us.push_back(sample.us > 0 ? sample.us : std::numeric_limits<double>::infinity());
  }
  return result;
}

/// Each such family is one line in artifact/tuned_families.cpp. No part of libspjit, nor is what
/// implements it.
class TunedFamily {
 public:
  TunedFamily() = default;
  TunedFamily(const TunedFamily&) = delete;
  TunedFamily& operator=(const TunedFamily&) = delete;
  virtual ~TunedFamily() = default;

  /// The features that its rank models look at.
  [[nodiscard]] virtual const FeatureSchema& schema() const noexcept = 0;
  /// SampleLine::family, which is the name of the schema.
  [[nodiscard]] std::string_view name() const noexcept { return schema().name; }

  /// Throws Error that says what is wrong with the line.
  [[nodiscard]] virtual SampledTiles read(const SampleLine& line) const = 0;
};

}  // namespace spjit

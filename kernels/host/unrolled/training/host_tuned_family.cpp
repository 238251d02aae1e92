#include "kernels/host/unrolled/training/host_tuned_family.hpp"

#include <fmt/format.h>

#include <vector>

#include "kernels/host/unrolled/host_features.hpp"
#include "kernels/host/unrolled/host_samples.hpp"

namespace spjit {

const FeatureSchema& HostTunedFamily::schema() const noexcept { return host_feature_schema(); }

SampledTiles HostTunedFamily::read(const SampleLine& line) const {
  const HostSampleGroup group = host_samples_of(line);
  const HostDeviceInfo& limits = group.limits;
  SampledTiles tiles = tiles_of(group);
  tiles.device = fmt::format("{} {} t{}", limits.name, to_string(limits.isa), group.work.threads);
  const HostTile by_rules = host_tile_by_rules(contiguous(group.work), limits);
  for (const HostSample& sample : group.samples) {
    const std::vector<float> row = host_feature_row(sample.candidate, group.work, limits);
    tiles.features.insert(tiles.features.end(), row.begin(), row.end());
    tiles.prior.push_back(-estimate_host_us(sample.candidate, group.work, limits));
    tiles.rules.push_back(sample.candidate.tile == by_rules ? 1 : 0);
  }
  return tiles;
}

}  // namespace spjit

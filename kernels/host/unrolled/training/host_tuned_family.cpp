#include "kernels/host/unrolled/training/host_tuned_family.hpp"

#include <fmt/format.h>

#include <vector>

#include "base/host_cpu.hpp"
#include "kernels/host/unrolled/host_features.hpp"
#include "kernels/host/unrolled/host_samples.hpp"
#include "kernels/host/unrolled/training/host_collector.hpp"
#include "runtime/host/host_device_info.hpp"

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

SampleRecipe HostTunedFamily::draw(std::uint64_t seed, std::int64_t i) const {
  return draw_recipe(seed, i);
}

std::string HostTunedFamily::device_name(const CompileOptions& options) const {
  return fmt::format("{} t{}", options.target.name(), options.resources.threads);
}

Refusal HostTunedFamily::refusal(const Target& target) const {
  return why_not_timed_on(host_cpu(), target);
}

SampleLine HostTunedFamily::time(const Problem& problem, const CollectOptions& options,
                                 const std::shared_ptr<ThreadPool>& pool,
                                 const TimeTiles& time_tiles) const {
  return to_line(collect_samples(problem, options, pool, time_tiles));
}

}  // namespace spjit

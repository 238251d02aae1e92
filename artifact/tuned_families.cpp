#include "artifact/tuned_families.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/printable.hpp"
#include "kernels/cuda/unrolled/training/cuda_tuned_family.hpp"
#include "kernels/host/unrolled/training/host_tuned_family.hpp"
#include "spjit/error.hpp"

namespace spjit {

std::span<const TunedFamily* const> tuned_families() {
  static const HostTunedFamily k_unrolled_host;
  static const CudaTunedFamily k_unrolled_cuda;
  static const std::array<const TunedFamily*, 2> k_families = {&k_unrolled_host, &k_unrolled_cuda};
  return k_families;
}

const TunedFamily& tuned_family(std::string_view name) {
  const auto families = tuned_families();
  const auto found = std::ranges::find(families, name, &TunedFamily::name);
  if (found != families.end()) return **found;
  std::vector<std::string_view> names;
  for (const TunedFamily* family : families) names.push_back(family->name());
  throw Error(fmt::format("tiles of '{}'; expected {}", printable(name), fmt::join(names, " or ")));
}

std::vector<SampledTiles> read_tiles(std::span<const SampleLine> lines) {
  if (lines.empty()) return {};
  const TunedFamily& family = tuned_family(common_family(lines));
  std::vector<SampledTiles> tiles;
  tiles.reserve(lines.size());
  for (const SampleLine& line : lines) tiles.push_back(family.read(line));
  return tiles;
}

}  // namespace spjit

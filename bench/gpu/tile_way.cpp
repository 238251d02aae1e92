#include "bench/gpu/tile_way.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <utility>

#include "artifact/tuned_families.hpp"
#include "base/hash.hpp"
#include "bench/gpu/changed_space.hpp"
#include "compiler/cache_key.hpp"
#include "proxy/search.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"

namespace spjit::bench {
namespace {

constexpr int k_oracle_rounds = 7;
/// Long enough for every tile of the largest case.
constexpr double k_budget_ms = 300'000;
/// Where there is no hurry.
constexpr double k_fill_budget_ms = 1e9;

struct TileWay {
  const char* name;
  const char* proxy_source = "ptx";
  const char* without = nullptr;  ///< a reduction of SpaceOptions
  bool shares_proxies = true;     ///< one proxy for all N1 of an M1
  bool is_oracle = false;
};

constexpr TileWay k_ways[] = {
    {.name = "oracle", .is_oracle = true},
    {.name = "proxy-alone"},
    {.name = "proxy-c++", .proxy_source = "cuda"},
    {.name = "-kernels", .shares_proxies = false},
    {.name = "-blocks", .without = "blocks"},
    {.name = "-iterations", .without = "iterations"},
    {.name = "-occupancy", .without = "occupancy"},
};

/// Keeps cubins of a problem, whatever way they are searched in.
FindCubin find_in(const std::shared_ptr<CubinCache>& cubins, const FamilyRequest& request) {
  CompileOptions options = request.options;
  options.policy.search = SearchMode::instant;
  options.policy.values["proxy_source"] = "ptx";
  const std::string problem = cache_key({request.problem, options, request.device, request.cancel});
  return [cubins, problem](const std::string& key, const std::function<StoredCubin()>& make) {
    return cubins->cubin(KeyBuilder().field("problem", problem).field("code", key).hex(), make);
  };
}

TuningOptions oracle_rounds(const TuningOptions& tuning) {
  TuningOptions options = tuning;
  options.drops = false;
  options.min_rounds = options.max_rounds = k_oracle_rounds;
  return options;
}

/// The tiles of a way, all or some.
SpaceChanges changes_of(const TileWay& way, const TileWayOptions& of, std::size_t tiles) {
  SpaceChanges changes;
  changes.order.resize(tiles);
  std::iota(changes.order.begin(), changes.order.end(), std::size_t{0});
  changes.order = spread_sample(std::move(changes.order), of.most_tiles);
  changes.shares_builds = way.shares_proxies;
  if (of.rehearse) {
    changes.timing = rehearsed;
  } else if (way.is_oracle) {
    changes.timing = oracle_rounds;
  }
  return changes;
}

}  // namespace

std::vector<std::string> tile_way_names() {
  std::vector<std::string> names;
  for (const TileWay& way : k_ways) names.emplace_back(way.name);
  return names;
}

SearchTrace run_tile_way(const Problem& problem, const TileWayOptions& of) {
  const auto* const way = std::ranges::find(k_ways, of.way, &TileWay::name);
  if (way == std::end(k_ways)) {
    throw InvalidArgument(
        fmt::format("no way '{}'; expected {}", of.way, fmt::join(tile_way_names(), ", ")));
  }
  const CudaDeviceInfo limits = of.cubins ? of.cubins->card() : local_gpu_info(of.device);
  CompileOptions options;
  options.target = Target::parse(limits.name());
  options.policy.search_budget_ms = of.compile_only ? k_fill_budget_ms : k_budget_ms;
  options.policy.search = way->is_oracle ? SearchMode::exhaustive : SearchMode::proxy;
  options.policy.values["proxy_source"] = way->proxy_source;
  const DeviceInfo device = limits;
  const Cancellation cancel;
  const FamilyRequest request{problem, options, device, cancel};
  SpaceOptions how;
  if (!of.compile_only) how.gpu = of.device;
  if (way->without != nullptr) how.without = {way->without};
  if (of.cubins) how.find_cubin = find_in(of.cubins, request);
  const auto tiles = tuned_family(options.target.backend()).space(request, how);
  ChangedSpace space(*tiles, changes_of(*way, of, tiles->candidates().size()));
  SearchSettings settings;
  settings.mode = options.policy.search;
  settings.budget_ms = options.policy.search_budget_ms;
  settings.stages = search_stages(settings.mode, options.policy.top_k, true);
  settings.stages.finalists = 0;
  return spjit::search(space, settings, {}).trace;
}

}  // namespace spjit::bench

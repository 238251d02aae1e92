#include "bench/gpu/tile_way.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "bench/gpu/search_tools.hpp"
#include "kernels/cuda/unrolled/cuda_choice.hpp"
#include "kernels/cuda/unrolled/cuda_tunable.hpp"
#include "proxy/search.hpp"
#include "reorder/row_groupings.hpp"
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
  CudaSource source = CudaSource::ptx;  ///< of the proxies
  CudaReductions reductions = {};
  bool is_oracle = false;
};

constexpr TileWay k_ways[] = {
    {.name = "oracle", .is_oracle = true},
    {.name = "proxy-alone"},
    {.name = "proxy-c++", .source = CudaSource::cuda},
    {.name = "-kernels", .reductions = {.kernels = false}},
    {.name = "-blocks", .reductions = {.blocks = false}},
    {.name = "-iterations", .reductions = {.iterations = false}},
    {.name = "-occupancy", .reductions = {.occupancy = false}},
};

CudaSearchTools tools_of(const CudaSearchInput& input, const TileWay& way,
                         const TileWayOptions& of) {
  CudaSearchTools tools =
      lazy_cuda_tools(input, of.compile_only ? std::nullopt : std::optional<int>(of.device));
  if (of.cubins) tools = stored_tools(input, std::move(tools), of.cubins);
  if (of.compile_only) return tools;
  if (of.rehearse) return rehearsal_tools(std::move(tools));
  if (!way.is_oracle) return tools;
  tools.time = [time = tools.time](std::span<const CudaTuningCandidate> candidates,
                                   const TuningOptions& given) {
    TuningOptions options = given;
    options.drops = false;
    options.min_rounds = options.max_rounds = k_oracle_rounds;
    return time(candidates, options);
  };
  return tools;
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
  RowGroupings groupings(*problem.a, options.policy.reorder);
  const DeviceInfo device = limits;
  const Cancellation cancel;
  const std::vector<CudaCandidate> tiles = spread_sample(
      choose_cuda_tile({{problem, options, device, cancel}, {}}).ranked, of.most_tiles);
  if (tiles.empty()) throw Error("the rules leave none of the tiles that are to be timed");
  options.policy.search = way->is_oracle ? SearchMode::exhaustive : SearchMode::proxy;
  options.policy.values["proxy_source"] = to_string(way->source);
  const CudaSearchInput input{problem, options, limits, groupings};
  CudaTunable space(input, tiles, tools_of(input, *way, of), way->reductions);
  SearchSettings settings;
  settings.mode = options.policy.search;
  settings.budget_ms = options.policy.search_budget_ms;
  settings.stages = search_stages(settings.mode, options.policy.top_k, true);
  settings.stages.finalists = 0;
  return spjit::search(space, settings, {}).trace;
}

}  // namespace spjit::bench

#include "bench/gpu/search_case.hpp"

#include <optional>
#include <utility>

#include "bench/gpu/search_tools.hpp"
#include "kernels/cuda/unrolled/cuda_choice.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"

namespace spjit::bench {
namespace {

constexpr const char* k_oracle = "oracle";
constexpr int k_oracle_rounds = 7;
/// Long enough for every tile of the largest case.
constexpr double k_budget_ms = 300'000;
/// Where there is no hurry.
constexpr double k_fill_budget_ms = 1e9;

CudaDeviceInfo limits_of(const GpuBenchOptions& bench) {
  return bench.cubins ? bench.cubins->card() : local_gpu_info(bench.device);
}

}  // namespace

SearchWay oracle_way() { return {k_oracle, SearchMode::exhaustive}; }

double time_of(const SearchTraceEntry& entry) {
  const std::optional<TuningResult>& result = entry.proxy ? entry.proxy : entry.full;
  return result && result->outcome != TuningOutcome::failed && result->timing.samples > 0
             ? result->timing.median_us
             : 0;
}

TileTimes times_of(const SearchTrace& trace) {
  TileTimes times;
  for (const SearchTraceEntry& entry : trace.entries) {
    if (const double us = time_of(entry); us > 0) times[entry.tile] = us;
  }
  return times;
}

SearchCase::SearchCase(const GpuCase& item, const GpuBenchOptions& bench)
    : bench_(bench),
      problem_(item.problem),
      options_(item.options),
      limits_(limits_of(bench)),
      groupings_(*problem_.a, options_.policy.reorder) {
  options_.policy.search_budget_ms = bench.compile_only ? k_fill_budget_ms : k_budget_ms;
  options_.policy.search = SearchMode::instant;
  const DeviceInfo device = limits_;
  const Cancellation cancel;
  tiles_ = spread_sample(choose_cuda_tile({{problem_, options_, device, cancel}, {}}).ranked,
                         bench.most_tiles);
  if (tiles_.empty()) throw Error("the rules leave none of the tiles that are to be timed");
}

SearchTrace SearchCase::run(const SearchWay& way) {
  options_.policy.search = way.mode;
  options_.policy.values["proxy_source"] = to_string(way.source);
  const CudaSearchInput input{problem_, options_, limits_, groupings_};
  CudaTunable space(input, tiles_, tools_of(input, way), way.reductions);
  SearchSettings settings;
  settings.mode = way.mode;
  settings.budget_ms = options_.policy.search_budget_ms;
  settings.stages = search_stages(way.mode, options_.policy.top_k, true);
  settings.stages.finalists = 0;
  return spjit::search(space, settings, {}).trace;
}

CudaSearchTools SearchCase::tools_of(const CudaSearchInput& input, const SearchWay& way) const {
  CudaSearchTools tools = lazy_cuda_tools(
      input, bench_.compile_only ? std::nullopt : std::optional<int>(bench_.device));
  if (bench_.cubins) tools = stored_tools(input, std::move(tools), bench_.cubins);
  if (bench_.compile_only) return tools;
  if (bench_.check_only) return rehearsal_tools(std::move(tools));
  if (way.name != k_oracle) return tools;
  tools.time = [time = tools.time](std::span<const CudaTuningCandidate> candidates,
                                   const TuningOptions& given) {
    TuningOptions options = given;
    options.drops = false;
    options.min_rounds = options.max_rounds = k_oracle_rounds;
    return time(candidates, options);
  };
  return tools;
}

}  // namespace spjit::bench

#include "bench/search_cost/way_options.hpp"

namespace spjit::bench {
namespace {

constexpr int k_full_rounds = 7;

SearchMode mode_of(CostWay way) {
  switch (way) {
    case CostWay::full_undivided:
    case CostWay::full_units:
    case CostWay::full_ptx_units:
      return SearchMode::exhaustive;
    case CostWay::proxies:
      return SearchMode::proxy;
    case CostWay::ranked:
      return SearchMode::ranked;
    case CostWay::instant:
      break;
  }
  return SearchMode::instant;
}

}  // namespace

CompileOptions way_options(CostWay way, const CostSettings& settings) {
  // Stages may use shares of a budget, so it has to be a multiple of the limit.
  constexpr double k_budget_ms_a_s = 10e3;
  CompileOptions options;
  options.policy.search = mode_of(way);
  options.policy.hot = true;
  options.policy.search_budget_ms = k_budget_ms_a_s * settings.limit_s;
  options.resources.compile_threads = settings.threads;
  const bool nvrtc = way == CostWay::full_undivided || way == CostWay::full_units;
  options.policy.values["source"] = nvrtc ? "cuda" : "ptx";
  return options;
}

TuningOptions without_drops(const TuningOptions& tuning) {
  TuningOptions options = tuning;
  options.drops = false;
  options.min_rounds = options.max_rounds = k_full_rounds;
  return options;
}

}  // namespace spjit::bench

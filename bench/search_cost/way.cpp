#include "bench/search_cost/way.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "spjit/error.hpp"

namespace spjit::bench {
namespace {

constexpr int k_full_rounds = 7;

struct WayEntry {
  CostWay way;
  const char* name;
  SearchMode mode;
};

constexpr WayEntry k_ways[] = {
    {CostWay::full_undivided, "full undivided", SearchMode::exhaustive},
    {CostWay::full_units, "full units", SearchMode::exhaustive},
    {CostWay::full_ptx_units, "full ptx units", SearchMode::exhaustive},
    {CostWay::proxies, "proxies", SearchMode::proxy},
    {CostWay::ranked, "ranked", SearchMode::ranked},
    {CostWay::instant, "instant", SearchMode::instant},
};

const WayEntry& entry_of(CostWay way) { return *std::ranges::find(k_ways, way, &WayEntry::way); }

}  // namespace

std::string to_string(CostWay way) { return entry_of(way).name; }

CostWay way_named(const std::string& name) {
  const auto* const found = std::ranges::find(k_ways, name, &WayEntry::name);
  if (found == std::end(k_ways)) throw InvalidArgument(fmt::format("no way '{}'", name));
  return found->way;
}

std::vector<CostWay> cost_ways(bool cuda) {
  std::vector<CostWay> ways;
  for (const WayEntry& entry : k_ways) {
    const bool has_units = entry.way == CostWay::full_units || entry.way == CostWay::full_ptx_units;
    if (cuda || !has_units) ways.push_back(entry.way);
  }
  return ways;
}

bool is_full(CostWay way) { return entry_of(way).mode == SearchMode::exhaustive; }

CompileOptions way_options(CostWay way, const CostSettings& settings) {
  // Stages may use shares of a budget, so it has to be a multiple of the limit.
  constexpr double k_budget_ms_a_s = 10e3;
  CompileOptions options;
  options.policy.search = entry_of(way).mode;
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

void CostReporter::set_candidates(std::size_t count) {
  candidates_ = static_cast<std::int64_t>(count);
  tell(fmt::format(R"({{"candidates": {}}})", count));
}

void CostReporter::begin() { tell(fmt::format(R"({{"begun_s": {}}})", seconds())); }

void CostReporter::done(bool failed) {
  if (failed) ++failed_;
  ++compiled_;
  tell(fmt::format(R"({{"done_s": {}, "failed": {}}})", seconds(), failed));
}

void CostReporter::say(const std::string& note) { tell(nlohmann::json{{"note", note}}.dump()); }

void CostReporter::tell(const std::string& line) {
  if (out_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  fmt::print(out_, "{}\n", line);
  std::fflush(out_);
}

}  // namespace spjit::bench

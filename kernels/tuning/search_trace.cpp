#include "kernels/tuning/search_trace.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace spjit {

using nlohmann::json;

std::size_t count_timed(const SearchTrace& trace,
                        std::optional<TuningResult> SearchTraceEntry::*time) {
  const auto count = std::ranges::count_if(trace.entries, [&](const SearchTraceEntry& entry) {
    return entry.*time && (entry.*time)->timing.samples > 0;
  });
  return static_cast<std::size_t>(count);
}

json to_json(const TuningResult& result) {
  json entry = {{"outcome", std::string(to_string(result.outcome))}};
  if (!result.failure.empty()) entry["failure"] = result.failure;
  if (result.timing.samples > 0) {
    entry["median_us"] = result.timing.median_us;
    entry["min_us"] = result.timing.min_us;
    entry["noise"] = result.timing.noise;
    entry["samples"] = result.timing.samples;
  }
  return entry;
}

json to_json(const ModelledResult& result) {
  if (!result.failure.empty()) return {{"failure", result.failure}};
  return {{"us", result.us}, {"cycles", result.cycles}, {"bound", result.bound}};
}

json to_json(const SearchTrace& trace) {
  json result = {{"mode", std::string(to_string(trace.mode))},
                 {"ranked_by", trace.ranked_by},
                 {"timed", trace.timed},
                 {"modelled", trace.modelled},
                 {"proxies", trace.proxies},
                 {"budget_ms", trace.budget_ms},
                 {"rank_ms", trace.rank_ms},
                 {"proxy_ms", trace.proxy_ms},
                 {"full_ms", trace.full_ms},
                 {"entries", json::array()}};
  if (!trace.entries.empty()) result["chosen"] = trace.entries[trace.chosen].tile;
  for (const SearchTraceEntry& entry : trace.entries) {
    json item = {{"tile", entry.tile}, {"m1", entry.m1}, {"n1", entry.n1}, {"score", entry.score}};
    if (entry.proxy) item["proxy"] = to_json(*entry.proxy);
    if (entry.full) item["full"] = to_json(*entry.full);
    if (entry.modelled) item["modelled"] = to_json(*entry.modelled);
    if (!entry.note.empty()) item["note"] = entry.note;
    result["entries"].push_back(std::move(item));
  }
  return result;
}

}  // namespace spjit

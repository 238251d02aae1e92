#include "bench/lab/record.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace spjit::bench {
namespace {

using Json = nlohmann::json;

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json to_json(const WayTiming& timing) {
  const auto time = [&](double value) { return timing.failed.empty() ? Json(value) : Json(); };
  Json json = {{"way", timing.way},
               {"median_us", time(timing.time.median_us)},
               {"min_us", time(timing.time.min_us)},
               {"noise", time(timing.time.noise)},
               {"samples", timing.time.samples},
               {"ratio", timing.paired ? Json(timing.paired->median) : Json()},
               {"ratio_error", timing.paired ? Json(timing.paired->error) : Json()},
               {"chosen", timing.chosen},
               {"prepare_ms", or_null(timing.prepare_ms)},
               {"failed", timing.failed.empty() ? Json() : Json(timing.failed)}};
  if (timing.values_ms) json["values_ms"] = *timing.values_ms;
  if (timing.layers_us.empty()) return json;
  for (const double us : timing.layers_us) json["layers_us"].push_back(std::round(us * 10) / 10);
  return json;
}

/// Of a median, as a share of it: of normal samples sqrt(pi / 2) times that of a mean.
double error_of_median(const TimingResult& time) {
  constexpr double k_error_of_median = 1.2533;
  return time.samples > 0 ? k_error_of_median * time.noise / std::sqrt(time.samples) : 0;
}

}  // namespace

PairedRatio paired_ratio(std::span<const double> times_us, std::span<const double> first_us) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(times_us.size(), first_us.size()); ++i) {
    ratios.push_back(times_us[i] / first_us[i]);
  }
  const TimingResult summary = summarize_samples({}, std::move(ratios));
  return {summary.median_us, error_of_median(summary)};
}

const WayTiming* Case::find(const std::string& way) const {
  const auto found = std::ranges::find(timings, way, &WayTiming::way);
  return found == timings.end() || !found->failed.empty() ? nullptr : &*found;
}

std::optional<double> Case::ratio(const std::string& way) const {
  const WayTiming* const timing = find(way);
  const WayTiming* const first = timings.empty() ? nullptr : find(timings.front().way);
  if (timing == nullptr || first == nullptr || first->time.median_us <= 0) return std::nullopt;
  if (timing->paired) return timing->paired->median;
  return timing->time.median_us / first->time.median_us;
}

nlohmann::json to_json(const Case& one) {
  Json json = {{"workload", one.workload},
               {"rows", one.rows},
               {"cols", one.cols},
               {"layers", one.layers},
               {"nnz", one.nnz},
               {"sparsity", one.sparsity},
               {"n", one.n},
               {"threads", one.threads},
               {"facts", one.facts},
               {"caches", one.hot ? "hot" : "cold"},
               {"timings", Json::array()}};
  if (!one.comparison.empty()) json["comparison"] = one.comparison;
  if (!one.layer.empty()) json["layer"] = one.layer;
  for (const WayTiming& timing : one.timings) json["timings"].push_back(to_json(timing));
  return json;
}

}  // namespace spjit::bench

#include "bench/lab/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace spjit::bench {
namespace {

using Json = nlohmann::json;

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

std::optional<double> number_or_none(const Json& value) {
  if (value.is_null()) return std::nullopt;
  return value.get<double>();
}

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

WayTiming timing_of(const Json& json) {
  WayTiming timing;
  timing.way = json.at("way").get<std::string>();
  timing.chosen = json.at("chosen").get<std::vector<std::string>>();
  timing.prepare_ms = number_or_none(json.at("prepare_ms"));
  timing.values_ms = number_or_none(json.value("values_ms", Json()));
  timing.layers_us = json.value("layers_us", std::vector<double>());
  timing.time.samples = json.at("samples").get<int>();
  if (!json.at("failed").is_null()) {
    timing.failed = json.at("failed").get<std::string>();
    return timing;
  }
  timing.time.median_us = json.at("median_us").get<double>();
  timing.time.min_us = json.at("min_us").get<double>();
  timing.time.noise = json.at("noise").get<double>();
  if (json.at("ratio").is_null()) return timing;
  timing.paired = {json.at("ratio").get<double>(), json.at("ratio_error").get<double>()};
  return timing;
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

double Case::error(const std::string& way) const {
  const WayTiming* const timing = find(way);
  if (timing == nullptr) return 0;
  if (timing->paired) return timing->paired->error;
  return std::hypot(error_of_median(timing->time), error_of_median(timings.front().time));
}

double Case::nnz_of_row() const noexcept {
  const std::int64_t all_rows = rows * layers;
  return all_rows > 0 ? static_cast<double>(nnz) / static_cast<double>(all_rows) : 0;
}

std::string describe(const Case& one) {
  std::string text = one.workload;
  if (one.facts.contains("shape_text")) {
    text += ' ' + one.facts.at("shape_text").get<std::string>();
  } else if (one.rows > 0) {
    text += fmt::format(" {}x{}", one.rows, one.cols);
  }
  return text + fmt::format(" n={} t={} {}", one.n, one.threads, one.hot ? "hot" : "cold");
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

Case case_of(const nlohmann::json& record) {
  Case one;
  one.workload = record.at("workload").get<std::string>();
  one.comparison = record.value("comparison", "");
  one.layer = record.value("layer", "");
  one.rows = record.at("rows").get<std::int64_t>();
  one.cols = record.at("cols").get<std::int64_t>();
  one.layers = record.at("layers").get<std::int64_t>();
  one.nnz = record.at("nnz").get<std::int64_t>();
  one.sparsity = record.at("sparsity").get<double>();
  one.n = record.at("n").get<std::int64_t>();
  one.threads = record.at("threads").get<int>();
  one.hot = record.at("caches") == "hot";
  one.facts = record.at("facts");
  for (const Json& timing : record.at("timings")) one.timings.push_back(timing_of(timing));
  return one;
}

}  // namespace spjit::bench

#include "bench/layer/case.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace spjit::bench {
namespace {

nlohmann::json to_json(const WayTiming& timing) {
  nlohmann::json json = {{"way", timing.way},
                         {"median_us", timing.time.median_us},
                         {"min_us", timing.time.min_us},
                         {"noise", timing.time.noise},
                         {"samples", timing.time.samples},
                         {"families", timing.families}};
  json["prepare_us"] =
      timing.prepare_us ? nlohmann::json(*timing.prepare_us) : nlohmann::json(nullptr);
  json["ratio"] = timing.paired ? nlohmann::json(timing.paired->median) : nlohmann::json(nullptr);
  json["ratio_error"] =
      timing.paired ? nlohmann::json(timing.paired->error) : nlohmann::json(nullptr);
  return json;
}

WayTiming way_timing_of(const nlohmann::json& json) {
  WayTiming timing;
  timing.way = json.at("way").get<std::string>();
  timing.time.median_us = json.at("median_us").get<double>();
  timing.time.min_us = json.at("min_us").get<double>();
  timing.time.noise = json.at("noise").get<double>();
  timing.time.samples = json.at("samples").get<int>();
  timing.families = json.at("families").get<std::vector<std::string>>();
  if (!json.at("prepare_us").is_null()) timing.prepare_us = json.at("prepare_us").get<double>();
  if (!json.at("ratio").is_null()) {
    timing.paired = {json.at("ratio").get<double>(), json.at("ratio_error").get<double>()};
  }
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

double LayerCase::nnz_of_row() const noexcept {
  const std::int64_t all_rows = rows * layers;
  return all_rows > 0 ? static_cast<double>(nnz) / static_cast<double>(all_rows) : 0;
}

const WayTiming* LayerCase::find(const std::string& way) const {
  const auto found = std::ranges::find(timings, way, &WayTiming::way);
  return found == timings.end() ? nullptr : &*found;
}

std::optional<double> LayerCase::ratio(const std::string& way) const {
  const WayTiming* const timing = find(way);
  if (timing == nullptr || timings.front().time.median_us <= 0) return std::nullopt;
  if (timing->paired) return timing->paired->median;
  return timing->time.median_us / timings.front().time.median_us;
}

double LayerCase::error(const std::string& way) const {
  const WayTiming* const timing = find(way);
  if (timing == nullptr) return 0;
  if (timing->paired) return timing->paired->error;
  return std::hypot(error_of_median(timing->time), error_of_median(timings.front().time));
}

nlohmann::json to_json(const WayFailure& failure) {
  return {
      {"comparison", failure.comparison}, {"network", failure.network}, {"n", failure.n},
      {"threads", failure.threads},       {"way", failure.way},         {"reason", failure.reason}};
}

nlohmann::json to_json(const LayerCase& result) {
  nlohmann::json json = {{"comparison", result.comparison},
                         {"network", result.network},
                         {"rows", result.rows},
                         {"cols", result.cols},
                         {"layers", result.layers},
                         {"nnz", result.nnz},
                         {"n", result.n},
                         {"threads", result.threads},
                         {"caches", result.hot ? "hot" : "cold"},
                         {"timings", nlohmann::json::array()}};
  for (const WayTiming& timing : result.timings) json["timings"].push_back(to_json(timing));
  return json;
}

LayerCase layer_case_of(const nlohmann::json& record) {
  LayerCase result;
  result.comparison = record.at("comparison").get<std::string>();
  result.network = record.at("network").get<std::string>();
  result.rows = record.at("rows").get<std::int64_t>();
  result.cols = record.at("cols").get<std::int64_t>();
  result.layers = record.at("layers").get<std::int64_t>();
  result.nnz = record.at("nnz").get<std::int64_t>();
  result.n = record.at("n").get<std::int64_t>();
  result.threads = record.at("threads").get<int>();
  result.hot = record.at("caches") == "hot";
  for (const nlohmann::json& timing : record.at("timings")) {
    result.timings.push_back(way_timing_of(timing));
  }
  return result;
}

}  // namespace spjit::bench

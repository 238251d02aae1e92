#include "bench/search/search_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "rankmodel/rank_metrics.hpp"

namespace spjit::bench {
namespace {

std::string shortened(const std::string& name, std::size_t width) {
  return name.size() <= width ? name : "~" + name.substr(name.size() - width + 1);
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

/// Samples of one way.
struct Samples {
  std::vector<double> loss;
  std::vector<double> top1;
  std::vector<double> tau;
  std::vector<double> noise;
  std::vector<double> log_times_less;
  double seconds = 0;
};

WaySummary summary_of(const std::string& way, const Samples& samples) {
  WaySummary summary;
  summary.way = way;
  summary.cases = samples.loss.size();
  summary.noise = mean(samples.noise);
  const Percentiles loss = percentiles(samples.loss);
  summary.loss_mean = loss.mean;
  summary.loss_p95 = loss.p95;
  summary.loss_worst = loss.worst;
  const Percentiles top1 = percentiles(samples.top1);
  summary.top1_loss_mean = top1.mean;
  summary.top1_loss_worst = top1.worst;
  summary.tau_mean = mean(samples.tau);
  summary.seconds = samples.seconds;
  summary.times_less = std::exp(mean(samples.log_times_less));
  summary.times_less_min = std::exp(std::ranges::min(samples.log_times_less));
  return summary;
}

}  // namespace

std::string search_header() {
  return fmt::format("{:<44} {:>4} {:>7} {:>5} | {:>8} | {:<38} | {}\n", "matrix", "n", "nnz",
                     "tiles", "best us", "loss in %: instant ranked proxy exhaust.",
                     "seconds: oracle exhaust. proxy ranked, tau");
}

std::string search_row(const SearchCaseResult& result) {
  if (!result.error.empty()) {
    return fmt::format("{:<44} {:>4} FAILED: {}\n", shortened(result.matrix, 44), result.n,
                       result.error);
  }
  const auto loss = [&](const char* way) {
    const WayResult* found = result.find(way);
    return found == nullptr ? std::string("-") : fmt::format("{:.1f}", 100 * found->loss);
  };
  const auto seconds = [&](const char* way) {
    const WayResult* found = result.find(way);
    return found == nullptr ? std::string("-") : fmt::format("{:.3f}", found->seconds());
  };
  const WayResult* proxies = result.find("proxies");
  return fmt::format(
      "{:<44} {:>4} {:>7} {:>5} | {:>8.1f} | {:>18} {:>6} {:>5} {:>6} | {:>13} {:>8} {:>6} "
      "{:>6}  {:.2f}\n",
      shortened(result.matrix, 44), result.n, result.nnz, result.survivors, result.best_us,
      loss("instant"), loss("ranked"), loss("proxy"), loss("exhaustive"), seconds("oracle"),
      seconds("exhaustive"), seconds("proxy"), seconds("ranked"),
      proxies == nullptr ? 0 : proxies->tau);
}

std::vector<WaySummary> summarize(std::span<const SearchCaseResult> results,
                                  std::int64_t least_nnz) {
  std::vector<std::string> order;
  std::map<std::string, Samples> samples;
  for (const SearchCaseResult& result : results) {
    const WayResult* oracle = result.find("oracle");
    if (!result.error.empty() || oracle == nullptr || result.nnz <= least_nnz) continue;
    for (const WayResult& way : result.ways) {
      if (!samples.contains(way.way)) order.push_back(way.way);
      Samples& of = samples[way.way];
      of.loss.push_back(way.loss);
      of.noise.push_back(result.noise);
      of.top1.push_back(way.top1_loss);
      of.tau.push_back(way.tau);
      of.log_times_less.push_back(std::log(oracle->seconds() / std::max(way.seconds(), 1e-9)));
      of.seconds += way.seconds();
    }
  }
  std::vector<WaySummary> summaries;
  summaries.reserve(order.size());
  for (const std::string& way : order) summaries.push_back(summary_of(way, samples[way]));
  return summaries;
}

std::string summary_table(std::span<const WaySummary> summaries) {
  std::string text =
      fmt::format("{:<12} {:>5} | {:>7} {:>7} {:>7} | {:>9} {:>9} | {:>5} | {:>9} {:>11} {:>8}\n",
                  "way", "cases", "loss %", "p95", "worst", "proxy top", "worst", "tau", "seconds",
                  "times less", "least");
  for (const WaySummary& way : summaries) {
    text += fmt::format(
        "{:<12} {:>5} | {:>7.2f} {:>7.2f} {:>7.2f} | {:>9.2f} {:>9.2f} | {:>5.2f} | {:>9.2f} "
        "{:>11.1f} {:>8.1f}\n",
        way.way, way.cases, 100 * way.loss_mean, 100 * way.loss_p95, 100 * way.loss_worst,
        100 * way.top1_loss_mean, 100 * way.top1_loss_worst, way.tau_mean, way.seconds,
        way.times_less, way.times_less_min);
  }
  if (!summaries.empty()) {
    text += fmt::format("The judge's own noise: {:.2f} % between halves of its loads\n",
                        100 * summaries.front().noise);
  }
  return text;
}

std::string crossover_table(std::span<const SearchCaseResult> results) {
  std::map<int, std::vector<double>> ratios;  // by half decades
  for (const SearchCaseResult& result : results) {
    const WayResult* proxies = result.find("proxies");
    const WayResult* exhaustive = result.find("exhaustive");
    if (proxies == nullptr || exhaustive == nullptr || result.nnz == 0) continue;
    const double work = static_cast<double>(result.nnz) * static_cast<double>(result.n);
    ratios[static_cast<int>(std::floor(2 * std::log10(work)))].push_back(
        std::log((proxies->proxy_ms + proxies->full_ms) / exhaustive->full_ms));
  }
  std::string text = "nnz x n       cases   proxies / exhaustive, both without ranking\n";
  for (const auto& [half_decade, logs] : ratios) {
    text += fmt::format("{:>7.2g}+ {:>10}   {:.2f}\n", std::pow(10, 0.5 * half_decade), logs.size(),
                        std::exp(mean(logs)));
  }
  return text;
}

nlohmann::json to_json(const SearchCaseResult& result) {
  nlohmann::json ways = nlohmann::json::array();
  for (const WayResult& way : result.ways) {
    ways.push_back({{"way", way.way},
                    {"tile", to_string(way.tile)},
                    {"loss", way.loss},
                    {"top1_loss", way.top1_loss},
                    {"tau", way.tau},
                    {"proxies", way.proxies},
                    {"rank_ms", way.rank_ms},
                    {"proxy_ms", way.proxy_ms},
                    {"full_ms", way.full_ms}});
  }
  return {{"matrix", result.matrix},
          {"rows", result.rows},
          {"cols", result.cols},
          {"nnz", result.nnz},
          {"n", result.n},
          {"survivors", result.survivors},
          {"best_us", result.best_us},
          {"best_tile", result.best_tile},
          {"noise", result.noise},
          {"ways", std::move(ways)},
          {"error", result.error}};
}

nlohmann::json to_json(const WaySummary& summary) {
  return {{"way", summary.way},
          {"cases", summary.cases},
          {"noise", summary.noise},
          {"loss_mean", summary.loss_mean},
          {"loss_p95", summary.loss_p95},
          {"loss_worst", summary.loss_worst},
          {"top1_loss_mean", summary.top1_loss_mean},
          {"top1_loss_worst", summary.top1_loss_worst},
          {"tau_mean", summary.tau_mean},
          {"seconds", summary.seconds},
          {"times_less", summary.times_less},
          {"times_less_min", summary.times_less_min}};
}

}  // namespace spjit::bench

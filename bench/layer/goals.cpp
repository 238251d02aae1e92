#include "bench/layer/goals.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace spjit::bench {
namespace {

/// What a figure is to be, of ways whose names begin so.
struct Goal {
  const char* comparison;  ///< of both layouts
  const char* way;
  std::optional<double> mean;
  std::optional<double> worst;
  double least_nnz_of_row = 0;  ///< of cases that count
};

constexpr const char* k_prepare = "prepare 1M values";

// A goal that is one figure is held against the mean; what is prepared against the worst.
const Goal k_goals[] = {{"layout", "tokens", 1.08, 1.25},
                        {"runtime-n", "any n", 1.03, 1.15},
                        {"epilogue", "fused", 1.05, std::nullopt, 40},
                        {"epilogue", "apart", std::nullopt, std::nullopt, 40},
                        {"batch", "8 x 128", 1.00, std::nullopt},
                        {"values", "buffer", 1.03, std::nullopt},
                        {"values", k_prepare, std::nullopt, 5.0}};

Goal goal_of(const std::string& comparison, const std::string& way) {
  for (const Goal& goal : k_goals) {
    if (comparison.starts_with(goal.comparison) && way.starts_with(goal.way)) return goal;
  }
  return {"", "", std::nullopt, std::nullopt};
}

std::string where(const LayerCase& one, const WayTiming& timing) {
  return fmt::format("{} {}x{} n={} {} ({})", one.network, one.rows, one.cols, one.n,
                     fmt::join(timing.families, "+"), fmt::join(one.timings.front().families, "+"));
}

/// What summaries are of.
using Key = std::tuple<std::size_t, int, bool>;  // place of comparison and way, threads, hot

/// Figures of one way while they are collected.
class Collection {
 public:
  void add(const std::string& comparison, const std::string& way, const LayerCase& one,
           WorstCase figure) {
    if (one.nnz_of_row() < goal_of(comparison, way).least_nnz_of_row) return;
    const std::string name = comparison + '\n' + way;
    const std::size_t place = places_.try_emplace(name, places_.size()).first->second;
    LayerSummary& summary = summaries_[{place, one.threads, one.hot}];
    summary.comparison = comparison;
    summary.way = way;
    summary.unit = way == k_prepare ? "ms" : "x";
    summary.threads = one.threads;
    summary.hot = one.hot;
    summary.worst_cases.push_back(std::move(figure));
  }

  [[nodiscard]] std::vector<LayerSummary> finish(std::size_t most) {
    std::vector<LayerSummary> done;
    for (auto& [key, summary] : summaries_) {
      double logarithms = 0;
      for (const WorstCase& one : summary.worst_cases) logarithms += std::log(one.figure);
      summary.cases = summary.worst_cases.size();
      std::ranges::stable_sort(summary.worst_cases, std::ranges::greater(), &WorstCase::figure);
      const Goal goal = goal_of(summary.comparison, summary.way);
      summary.mean = {std::exp(logarithms / static_cast<double>(summary.cases)), goal.mean};
      summary.worst = {summary.worst_cases.front().figure, goal.worst};
      summary.worst_cases.resize(std::min(summary.cases, most));
      done.push_back(std::move(summary));
    }
    return done;
  }

 private:
  std::map<std::string, std::size_t> places_;
  std::map<Key, LayerSummary> summaries_;
};

nlohmann::json json_of(const GoalFigure& figure) {
  return {{"measured", figure.measured},
          {"wanted", figure.wanted ? nlohmann::json(*figure.wanted) : nlohmann::json(nullptr)},
          {"missed", figure.missed()}};
}

std::string text_of(const GoalFigure& figure) {
  std::string measured = fmt::format("{:.2f}", figure.measured);
  if (!figure.wanted) return measured;
  return fmt::format("{} {} {:.2f}", measured, figure.missed() ? "NOT" : "<=", *figure.wanted);
}

}  // namespace

bool GoalFigure::missed() const noexcept {
  return wanted && std::round(100 * measured) > std::round(100 * *wanted);
}

std::vector<LayerSummary> summarize(std::span<const LayerCase> cases, std::size_t most) {
  constexpr double k_million = 1e6;
  Collection collection;
  for (const LayerCase& one : cases) {
    for (const WayTiming& timing : one.timings) {
      if (&timing == &one.timings.front()) continue;
      if (const auto ratio = one.ratio(timing.way)) {
        collection.add(one.comparison, timing.way, one,
                       {*ratio, one.error(timing.way), where(one, timing)});
      }
      if (timing.prepare_us && one.nnz > 0) {
        const double ms = *timing.prepare_us / 1e3 * k_million / static_cast<double>(one.nnz);
        collection.add(one.comparison, k_prepare, one, {ms, 0, where(one, timing)});
      }
    }
  }
  return collection.finish(most);
}

nlohmann::json to_json(const LayerSummary& summary) {
  nlohmann::json json = {{"comparison", summary.comparison},
                         {"way", summary.way},
                         {"unit", summary.unit},
                         {"threads", summary.threads},
                         {"caches", summary.hot ? "hot" : "cold"},
                         {"cases", summary.cases},
                         {"mean", json_of(summary.mean)},
                         {"worst", json_of(summary.worst)},
                         {"worst_cases", nlohmann::json::array()}};
  for (const WorstCase& one : summary.worst_cases) {
    json["worst_cases"].push_back(
        {{"figure", one.figure}, {"error", one.error}, {"where", one.where}});
  }
  return json;
}

std::string to_text(std::span<const LayerSummary> summaries) {
  std::string text = fmt::format("{:<18} {:<20} {:>2} {:<4} {:>5}  {:<14} {:<14}\n", "comparison",
                                 "way", "t", "", "cases", "mean", "worst");
  for (const LayerSummary& summary : summaries) {
    text += fmt::format("{:<18} {:<20} {:>2} {:<4} {:>5}  {:<14} {:<14} {}\n", summary.comparison,
                        summary.way, summary.threads, summary.hot ? "hot" : "cold", summary.cases,
                        text_of(summary.mean), text_of(summary.worst), summary.unit);
    for (const WorstCase& one : summary.worst_cases) {
      text += fmt::format("  {:>8.2f} +-{:.1f} %  {}\n", one.figure, 100 * one.error, one.where);
    }
  }
  return text;
}

}  // namespace spjit::bench

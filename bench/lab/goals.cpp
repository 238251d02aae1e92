#include "bench/lab/goals.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/lab/table.hpp"

namespace spjit::bench {
namespace {

using State = GoalResult::State;

State state_of(const Goal& goal, double measured) {
  if (!goal.wanted) return State::no_goal;
  const double given = std::round(100 * measured);
  const double wanted = std::round(100 * *goal.wanted);
  return (goal.at_least ? given >= wanted : given <= wanted) ? State::met : State::not_met;
}

}  // namespace

std::string to_string(State state) {
  if (state == State::met) return "MET";
  if (state == State::not_met) return "NOT MET";
  return state == State::no_data ? "NO DATA" : "NO GOAL";
}

GoalResult evaluate(const Goal& goal, std::span<const Case> cases, std::size_t most) {
  GoalResult result{goal};
  result.where = "no case";
  double logarithms = 0;
  double weights = 0;
  for (const Case& one : cases) {
    std::optional<Figure> figure = goal.figure(one);
    if (!figure) continue;
    logarithms += figure->weight * std::log(figure->value);
    weights += figure->weight;
    result.worst.push_back(*std::move(figure));
  }
  result.cases = result.worst.size();
  if (result.cases == 0) return result;
  std::ranges::stable_sort(result.worst, [&](const Figure& one, const Figure& other) {
    return goal.at_least ? one.value < other.value : one.value > other.value;
  });
  const bool is_mean = goal.over == Goal::Over::mean;
  result.measured = is_mean ? std::exp(logarithms / weights) : result.worst.front().value;
  result.where =
      is_mean ? fmt::format("{:.0f} {}", weights, goal.counted) : result.worst.front().where;
  result.state = state_of(goal, result.measured);
  result.worst.resize(is_mean ? 0 : std::min(result.cases, most));
  return result;
}

std::vector<GoalResult> evaluate(const std::vector<Goal>& goals, std::span<const Case> cases,
                                 std::size_t most) {
  std::vector<GoalResult> results;
  results.reserve(goals.size());
  for (const Goal& goal : goals) results.push_back(evaluate(goal, cases, most));
  return results;
}

nlohmann::json to_json(const GoalResult& result) {
  const Goal& goal = result.goal;
  nlohmann::json json = {{"goal", goal.text},
                         {"over", goal.over == Goal::Over::mean ? "mean" : "worst"},
                         {"measured", result.measured},
                         {"wanted", goal.wanted ? nlohmann::json(*goal.wanted) : nlohmann::json()},
                         {"unit", goal.unit},
                         {"where", result.where},
                         {"cases", result.cases},
                         {"state", to_string(result.state)},
                         {"worst", nlohmann::json::array()}};
  if (!goal.about.is_null()) json["about"] = goal.about;
  for (const Figure& one : result.worst) {
    json["worst"].push_back({{"figure", one.value}, {"error", one.error}, {"where", one.where}});
  }
  return json;
}

std::string to_text(const GoalResult& result) {
  std::string text =
      fmt::format("{:<8} {:>8.2f} {:<10} {:<62} {}\n", to_string(result.state), result.measured,
                  result.goal.unit, result.goal.text, shortened(result.where, 80));
  for (const Figure& one : result.worst) {
    const std::string error =
        one.error > 0 ? fmt::format("+-{:.1f} %", 100 * one.error) : std::string();
    text += fmt::format("{:>17.2f} {:<10} {}\n", one.value, error, one.where);
  }
  return text;
}

}  // namespace spjit::bench

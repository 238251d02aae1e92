#pragma once

/// @file
/// Goals of every kind of benchmark, and the results of all cases held against them.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/lab/record.hpp"

namespace spjit::bench {

/// The figure of one case.
struct Figure {
  double value = 0;
  std::string where = {};
  double weight = 1;  ///< how often it counts in a mean
  double error = 0;   ///< a standard error of the value, as a share of it
};

/// A figure over cases, and what it is to be.
struct Goal {
  enum class Over : std::uint8_t { worst, mean };  ///< the mean is geometric

  std::string text;
  std::optional<double> wanted = {};  ///< none: it is only told
  std::string unit = "x";
  bool at_least = true;  ///< else: at most; says which is the worst too
  Over over = Over::worst;
  std::function<std::optional<Figure>(const Case&)> figure = {};  ///< none: the case does not count
  std::string counted = "cases";                                  ///< what weights are numbers of
  nlohmann::json about = {};  ///< what it is of, for readers; null: the text says all
};

struct GoalResult {
  enum class State : std::uint8_t { met, not_met, no_data, no_goal };

  Goal goal;
  double measured = 0;
  State state = State::no_data;
  std::size_t cases = 0;   ///< that count
  std::string where = {};  ///< of the worst, or how many count
  std::vector<Figure> worst = {};
};

[[nodiscard]] std::string to_string(GoalResult::State state);

/// Met or not is decided as printed, with two decimals. `most`: figures in `worst`, worst first.
[[nodiscard]] GoalResult evaluate(const Goal& goal, std::span<const Case> cases, std::size_t most);
[[nodiscard]] std::vector<GoalResult> evaluate(const std::vector<Goal>& goals,
                                               std::span<const Case> cases, std::size_t most);

[[nodiscard]] nlohmann::json to_json(const GoalResult& result);
/// A line, and below it the worst cases.
[[nodiscard]] std::string to_text(const GoalResult& result);

// The goals, in the order of the requirement; in goal_lists.cpp:
/// Of one matrix, hot: share of the peak, times over OpenBLAS, two threads, compiling.
[[nodiscard]] std::vector<Goal> host_goals(std::span<const Case> cases);
/// Every way against the first, for each comparison, number of threads, cold and hot: the mean and
/// the worst. What preparing values costs is a way of its own.
[[nodiscard]] std::vector<Goal> layer_goals(std::span<const Case> cases);
/// Of ResNet-50, cold, for each layout and batches of 1 and 8. A mean counts a shape as often as
/// the network has it; "dense" is the fastest of oneDNN's ways. Then layers of all networks that do
/// worst against dense and against the fastest of spjit's families by itself.
[[nodiscard]] std::vector<Goal> conv_goals(std::span<const Case> cases);

}  // namespace spjit::bench

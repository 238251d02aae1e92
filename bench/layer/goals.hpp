#pragma once

/// @file
/// What the cases of layer_bench say together, held against the goals.

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/layer/case.hpp"

namespace spjit::bench {

/// A figure over cases, and what it is to be at most. Met or not is decided as printed, with two
/// decimals.
struct GoalFigure {
  double measured = 0;
  std::optional<double> wanted = {};

  [[nodiscard]] bool missed() const noexcept;
};

/// A case among the worst.
struct WorstCase {
  double figure = 0;
  double error = 0;   ///< a standard error of the figure, as a share of it
  std::string where;  ///< "minilm-80 384x384 n=16 compact (unrolled)": the first way's in brackets
};

/// One way against the first, over all cases of as many threads, cold or hot.
struct LayerSummary {
  std::string comparison;
  std::string way;   ///< "prepare 1M values" has a summary of its own
  std::string unit;  ///< "x": the way's time over the first's; "ms"
  int threads = 1;
  bool hot = false;
  std::size_t cases = 0;
  GoalFigure mean = {};  ///< geometric
  GoalFigure worst = {};
  std::vector<WorstCase> worst_cases = {};  ///< descending
};

/// Every way that was timed, in the order of the cases; those of one thread first, cold ones first.
/// `most` worst cases of each.
[[nodiscard]] std::vector<LayerSummary> summarize(std::span<const LayerCase> cases,
                                                  std::size_t most);

[[nodiscard]] nlohmann::json to_json(const LayerSummary& summary);

/// Lines of a table, the worst cases below each summary.
[[nodiscard]] std::string to_text(std::span<const LayerSummary> summaries);

}  // namespace spjit::bench

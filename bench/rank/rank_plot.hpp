#pragma once

/// @file
/// Plots of the report on rank models: SVG documents that are readable on light and dark pages.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace spjit::bench {

struct PlotSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< x ascending
};

struct PlotAxes {
  std::string title;
  std::string x;       ///< label
  std::string y;       ///< label
  bool log_x = false;  ///< x over 0
  double y_least = 0;
  double y_most = 1;
};

/// Lines with a legend. Points outside the axes are cut off.
[[nodiscard]] std::string line_plot(const PlotAxes& axes, const std::vector<PlotSeries>& series);

/// Horizontal bars, in the order given.
[[nodiscard]] std::string bar_plot(std::string_view title,
                                   const std::vector<std::pair<std::string, double>>& bars);

/// The share of values that are at most x, at each of them: an empirical distribution.
[[nodiscard]] PlotSeries distribution(std::string name, std::vector<double> values);

}  // namespace spjit::bench

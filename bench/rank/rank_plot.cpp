#include "bench/rank/rank_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace spjit::bench {
namespace {

// About a pixel each.
constexpr double k_width = 720;
constexpr double k_height = 400;
constexpr double k_left = 70;
constexpr double k_right = 190;  // the legend
constexpr double k_top = 40;
constexpr double k_bottom = 50;
constexpr double k_plot_width = k_width - k_left - k_right;
constexpr double k_plot_height = k_height - k_top - k_bottom;
constexpr double k_bar_height = 20;
constexpr int k_ticks = 5;

/// Told apart without red against green (Okabe and Ito).
constexpr std::array k_colours = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                  "#56b4e9", "#d55e00", "#999999"};

std::string escape(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else {
      result += c;
    }
  }
  return result;
}

std::string begin_svg(double height, std::string_view title) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
      "<text x=\"{:.0f}\" y=\"22\" font-size=\"14\" font-weight=\"bold\">{}</text>\n",
      k_width, height, k_left, escape(title));
}

std::string text_at(double x, double y, std::string_view anchor, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escape(text));
}

std::string line(double x1, double y1, double x2, double y2, std::string_view colour) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1, y1, x2,
      y2, colour);
}

/// From data to the picture.
class Scales {
 public:
  Scales(const PlotAxes& axes, const std::vector<PlotSeries>& series) : axes_(axes) {
    bool first = true;
    for (const PlotSeries& one : series) {
      for (const auto& [x, y] : one.points) {
        least_ = first ? x : std::min(least_, x);
        most_ = first ? x : std::max(most_, x);
        first = false;
      }
    }
    if (most_ <= least_) most_ = least_ + 1;
  }

  [[nodiscard]] double x(double value) const {
    const double share = axes_.log_x ? std::log(value / least_) / std::log(most_ / least_)
                                     : (value - least_) / (most_ - least_);
    return k_left + k_plot_width * share;
  }
  [[nodiscard]] double y(double value) const {
    const double inside = std::clamp(value, axes_.y_least, axes_.y_most);
    return k_top + k_plot_height * (axes_.y_most - inside) / (axes_.y_most - axes_.y_least);
  }
  [[nodiscard]] double x_tick(int i) const {
    const double share = static_cast<double>(i) / k_ticks;
    return axes_.log_x ? least_ * std::pow(most_ / least_, share)
                       : least_ + (most_ - least_) * share;
  }

 private:
  const PlotAxes& axes_;
  double least_ = 0;
  double most_ = 1;
};

std::string axes_svg(const PlotAxes& axes, const Scales& scales) {
  std::string svg;
  for (int i = 0; i <= k_ticks; ++i) {
    const double value =
        axes.y_least + (axes.y_most - axes.y_least) * static_cast<double>(i) / k_ticks;
    svg += line(k_left, scales.y(value), k_left + k_plot_width, scales.y(value), "#dddddd");
    svg += text_at(k_left - 6, scales.y(value) + 4, "end", fmt::format("{:.3g}", value));
    const double x = scales.x_tick(i);
    svg += text_at(scales.x(x), k_top + k_plot_height + 18, "middle", fmt::format("{:.3g}", x));
  }
  svg +=
      line(k_left, k_top + k_plot_height, k_left + k_plot_width, k_top + k_plot_height, "#333333");
  svg += text_at(k_left + k_plot_width / 2, k_height - 10, "middle", axes.x);
  svg += fmt::format(
      "<text x=\"16\" y=\"{0:.1f}\" text-anchor=\"middle\" transform=\"rotate(-90 16 {0:.1f})\">{1}"
      "</text>\n",
      k_top + k_plot_height / 2, escape(axes.y));
  return svg;
}

}  // namespace

std::string line_plot(const PlotAxes& axes, const std::vector<PlotSeries>& series) {
  const Scales scales(axes, series);
  std::string svg = begin_svg(k_height, axes.title) + axes_svg(axes, scales);
  for (std::size_t i = 0; i < series.size(); ++i) {
    const char* colour = k_colours[i % k_colours.size()];
    std::string points;
    for (const auto& [x, y] : series[i].points) {
      points += fmt::format("{:.1f},{:.1f} ", scales.x(x), scales.y(y));
    }
    svg += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n",
                       points, colour);
    const double y = k_top + 16 * static_cast<double>(i + 1);
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"14\" height=\"4\" fill=\"{}\"/>\n",
                       k_width - k_right + 12, y - 6, colour);
    svg += text_at(k_width - k_right + 32, y, "start", series[i].name);
  }
  return svg + "</svg>\n";
}

std::string bar_plot(std::string_view title,
                     const std::vector<std::pair<std::string, double>>& bars) {
  double most = 0;
  for (const auto& [name, value] : bars) most = std::max(most, value);
  const double height = k_top + k_bar_height * static_cast<double>(bars.size()) + 20;
  const double left = k_left + 90;
  std::string svg = begin_svg(height, title);
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const double y = k_top + k_bar_height * static_cast<double>(i);
    const double share = most > 0 ? std::max(0.0, bars[i].second) / most : 0;
    svg += text_at(left - 6, y + 13, "end", bars[i].first);
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", left,
        y + 2, (k_width - left - 90) * share, k_bar_height - 5, k_colours[0]);
    svg += text_at(left + (k_width - left - 90) * share + 6, y + 13, "start",
                   fmt::format("{:.4f}", bars[i].second));
  }
  return svg + "</svg>\n";
}

PlotSeries distribution(std::string name, std::vector<double> values) {
  std::ranges::sort(values);
  PlotSeries series{std::move(name), {}};
  const auto count = static_cast<double>(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    series.points.emplace_back(values[i], static_cast<double>(i + 1) / count);
  }
  return series;
}

}  // namespace spjit::bench

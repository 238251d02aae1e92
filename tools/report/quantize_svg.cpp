#include "tools/report/quantize_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "tools/report/tile_grid.hpp"

namespace spjit::cli {
namespace {

// Lengths are in the picture's units, about a pixel each.
constexpr double k_bars_left = 300;
constexpr double k_bars_top = 76;
constexpr double k_longest_bar = 420;
constexpr double k_line = 18;
constexpr double k_margin = 16;
constexpr double k_number_width = 90;
constexpr std::size_t k_longest_name = 40;

/// The end of a name tells layers apart.
std::string short_name(const std::string& name) {
  if (name.size() <= k_longest_name) return name;
  return "..." + name.substr(name.size() - k_longest_name + 3);
}

}  // namespace

std::string quantize_svg(std::span<const QuantizedWeights> weights, std::string_view title) {
  std::vector<const QuantizedWeights*> tried;
  double largest = 0;
  for (const QuantizedWeights& one : weights) {
    if (!one.relative_error) continue;
    tried.push_back(&one);
    largest = std::max(largest, *one.relative_error);
  }
  const double height = k_bars_top + k_line * static_cast<double>(tried.size()) + k_margin;
  std::string svg =
      svg_head(k_bars_left + k_longest_bar + k_number_width, height, title) +
      text_at(k_margin, k_bars_top - 26, "start",
              "norm of the difference to int8 over the norm of the weights; light: stays as it is");
  double y = k_bars_top;
  for (const QuantizedWeights* one : tried) {
    const double length = largest == 0 ? 0 : k_longest_bar * *one->relative_error / largest;
    svg += text_at(k_bars_left - 8, y + 11, "end", short_name(one->name));
    svg += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"13\" fill=\"{}\"/>\n",
                       k_bars_left, y, length, one->reason.empty() ? "#0b5d2a" : "#c9cdd3");
    svg += text_at(k_bars_left + length + 6, y + 11, "start",
                   fmt::format("{:.2f} %", 100 * *one->relative_error));
    y += k_line;
  }
  return svg + "</svg>\n";
}

}  // namespace spjit::cli

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/arithmetic.hpp"
#include "svg_text.hpp"
#include "tile_space_view.hpp"

namespace spjit::cli {
namespace {

// Lengths are in the picture's units, about a pixel each.
constexpr double k_cell_width = 52;
constexpr double k_cell_height = 28;
constexpr double k_left = 76;
constexpr double k_top = 78;
constexpr double k_least_width = 560;
constexpr double k_below = 66;

struct Paint {
  std::string fill;
  const char* text = "#1b1b1b";
};

// Told apart by lightness and letter too, not by hue alone.
std::string colour_of(const TileSpaceGrid& grid, const std::string& rule) {
  constexpr std::array k_colours = {"#c9cdd3", "#d9b8e8", "#f7d58b", "#f4a6a0", "#b3d4f5"};
  const auto at = std::ranges::find(grid.rules, rule) - grid.rules.begin();
  return k_colours[static_cast<std::size_t>(at) % k_colours.size()];
}

std::size_t count_ranked(const TileSpaceGrid& grid) {
  return static_cast<std::size_t>(
      std::ranges::count_if(grid.cells, [](const TileSpaceCell& cell) { return cell.rank > 0; }));
}

/// From dark green for the best to light green for the last.
Paint shade(std::int64_t rank, std::size_t ranked) {
  const double last = std::max(static_cast<double>(ranked) - 1, 1.0);
  const double part = rank > 0 ? static_cast<double>(rank - 1) / last : 1;
  const auto mix = [&](int dark, int light) { return std::lround(dark + part * (light - dark)); };
  return {fmt::format("#{:02x}{:02x}{:02x}", mix(0x0b, 0xc8), mix(0x5d, 0xeb), mix(0x2a, 0xcf)),
          part < 0.5 ? "#ffffff" : "#1b1b1b"};
}

Paint paint_of(const TileSpaceGrid& grid, const TileSpaceCell& cell) {
  if (!cell.rule.empty()) return {colour_of(grid, cell.rule)};
  return shade(cell.rank, count_ranked(grid));
}

std::string cell_svg(const TileSpaceGrid& grid, const TileSpaceCell& cell) {
  const Paint paint = paint_of(grid, cell);
  const double x = k_left + as_double(cell.column) * k_cell_width;
  const double y = k_top + as_double(cell.row) * k_cell_height;
  return fmt::format(
      "<g class=\"cell\"><title>{}</title><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" "
      "fill=\"{}\" stroke=\"{}\" stroke-width=\"{}\"/><text x=\"{}\" y=\"{}\" fill=\"{}\" "
      "text-anchor=\"middle\">{}</text></g>\n",
      escape_xml(cell.tile + "; " + cell.description), x + 2, y + 2, k_cell_width - 4,
      k_cell_height - 4, paint.fill, cell.chosen ? "#0b3fd1" : "#6b7078", cell.chosen ? 3 : 1,
      x + k_cell_width / 2, y + 19, paint.text, escape_xml(label_of(cell)));
}

std::string axes_svg(const TileSpaceGrid& grid) {
  std::string svg = text_at(k_left + as_double(grid.widths.size()) * k_cell_width / 2, 50, "middle",
                            "N1: columns a block (threads)");
  for (std::size_t i = 0; i < grid.widths.size(); ++i) {
    svg += text_at(k_left + (as_double(i) + 0.5) * k_cell_width, k_top - 8, "middle",
                   fmt::format("{}", grid.widths[i]));
  }
  for (std::size_t i = 0; i < grid.heights.size(); ++i) {
    svg += text_at(k_left - 8, k_top + as_double(i) * k_cell_height + 19, "end",
                   fmt::format("{}", grid.heights[i]));
  }
  const double middle = k_top + as_double(grid.heights.size()) * k_cell_height / 2;
  return svg + fmt::format(
                   "<text x=\"20\" y=\"{}\" text-anchor=\"middle\" "
                   "transform=\"rotate(-90 20 {})\">M1: rows a tile</text>\n",
                   middle, middle);
}

std::string legend_svg(const TileSpaceGrid& grid, double y) {
  std::string svg;
  double x = 16;
  const auto entry = [&](std::string_view fill, std::string_view stroke, std::string_view text) {
    svg += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"14\" height=\"14\" fill=\"{}\" stroke=\"{}\"/>\n", x, y,
        fill, stroke);
    svg += text_at(x + 20, y + 12, "start", text);
    x += 34 + as_double(text.size()) * 7;
  };
  for (const std::string& rule : grid.rules) {
    entry(colour_of(grid, rule), "#6b7078", fmt::format("{} {}", letter_of(rule), rule));
  }
  entry("#0b5d2a", "#6b7078", "rank");
  entry("none", "#0b3fd1", "* chosen");
  return svg;
}

}  // namespace

std::string tile_space_svg(const Json& space, std::string_view chosen, std::string_view title) {
  const TileSpaceGrid grid = make_grid(space, chosen);
  const double width =
      std::max(k_least_width, k_left + as_double(grid.widths.size()) * k_cell_width + 16);
  const double bottom = k_top + as_double(grid.heights.size()) * k_cell_height;
  const double height = bottom + k_below;
  std::string svg = svg_head(width, height, title);
  svg += axes_svg(grid);
  for (const TileSpaceCell& cell : grid.cells) svg += cell_svg(grid, cell);
  svg += legend_svg(grid, bottom + 24);
  return svg + "</svg>\n";
}

}  // namespace spjit::cli

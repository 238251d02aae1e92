#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/arithmetic.hpp"
#include "tools/report/tile_grid.hpp"
#include "tools/report/tile_space_view.hpp"

namespace spjit::cli {
namespace {

// Lengths are in the picture's units, about a pixel each.
constexpr double k_left = 76;
constexpr double k_top = 78;
constexpr double k_least_width = 560;
constexpr double k_below = 66;

struct Paint {
  std::string fill;
  const char* text = "#1b1b1b";
};

// Told apart by lightness and letter too, not by hue alone.
std::string colour_of(const TileSpaceView& view, const std::string& rule) {
  constexpr std::array k_colours = {"#c9cdd3", "#d9b8e8", "#f7d58b", "#f4a6a0", "#b3d4f5"};
  const auto at = std::ranges::find(view.rules, rule) - view.rules.begin();
  return k_colours[static_cast<std::size_t>(at) % k_colours.size()];
}

std::size_t count_ranked(const TileSpaceView& view) {
  return static_cast<std::size_t>(
      std::ranges::count_if(view.cells, [](const TileSpaceCell& cell) { return cell.rank > 0; }));
}

/// From dark green for the best to light green for the last.
Paint shade(std::int64_t rank, std::size_t ranked) {
  const double last = std::max(static_cast<double>(ranked) - 1, 1.0);
  const double part = rank > 0 ? static_cast<double>(rank - 1) / last : 1;
  const auto mix = [&](int dark, int light) { return std::lround(dark + part * (light - dark)); };
  return {fmt::format("#{:02x}{:02x}{:02x}", mix(0x0b, 0xc8), mix(0x5d, 0xeb), mix(0x2a, 0xcf)),
          part < 0.5 ? "#ffffff" : "#1b1b1b"};
}

Paint paint_of(const TileSpaceView& view, const TileSpaceCell& cell) {
  if (!cell.rule.empty()) return {colour_of(view, cell.rule)};
  return shade(cell.rank, count_ranked(view));
}

std::string legend_svg(const TileSpaceView& view, double y) {
  std::string svg;
  double x = 16;
  const auto entry = [&](std::string_view fill, std::string_view stroke, std::string_view text) {
    svg += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"14\" height=\"14\" fill=\"{}\" stroke=\"{}\"/>\n", x, y,
        fill, stroke);
    svg += text_at(x + 20, y + 12, "start", text);
    x += 34 + as_double(std::ssize(text)) * 7;
  };
  for (const std::string& rule : view.rules) {
    entry(colour_of(view, rule), "#6b7078", fmt::format("{} {}", letter_of(rule), rule));
  }
  entry("#0b5d2a", "#6b7078", "rank");
  entry("none", "#0b3fd1", "* chosen");
  return svg;
}

}  // namespace

std::string tile_space_svg(const Json& space, std::string_view chosen, std::string_view title) {
  const TileSpaceView view = view_of(space, chosen);
  std::vector<TileGridCell> cells;
  for (const TileSpaceCell& cell : grid_cells(view)) {
    const Paint paint = paint_of(view, cell);
    cells.push_back({cell.m1, cell.n1, label_of(cell), cell.chosen,
                     cell.tile + "; " + cell.description, paint.fill, paint.text});
  }
  const TileGridPicture grid = tile_grid_svg(cells, k_left, k_top);
  return svg_head(std::max(k_least_width, grid.right + 16), grid.bottom + k_below, title) +
         text_at(k_left, 50, "start", "rows M1 (down) x columns N1 of a tile") + grid.svg +
         legend_svg(view, grid.bottom + 24) + "</svg>\n";
}

}  // namespace spjit::cli

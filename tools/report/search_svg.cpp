#include "tools/report/search_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/report/search_table.hpp"
#include "tools/report/tile_grid.hpp"

namespace spjit::cli {
namespace {

// Lengths are in the picture's units, about a pixel each.
constexpr double k_plot = 340;  ///< side of the scatter plot
constexpr double k_left = 80;
constexpr double k_top = 70;
constexpr double k_grid_left = 530;
constexpr double k_least_width = 960;

struct Point {
  double proxy_us = 0;
  double full_us = 0;
  const SearchTraceEntry* entry = nullptr;
  bool chosen = false;
};

std::vector<Point> points_of(const SearchTrace& trace) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < trace.entries.size(); ++i) {
    const SearchTraceEntry& entry = trace.entries[i];
    if (!entry.proxy || !entry.full) continue;
    if (entry.proxy->timing.samples == 0 || entry.full->timing.samples == 0) continue;
    points.push_back(
        {entry.proxy->timing.median_us, entry.full->timing.median_us, &entry, i == trace.chosen});
  }
  return points;
}

/// Both axes of the scatter plot: microseconds from `least` to `most`.
struct LogScale {
  double least = 1;
  double most = 10;

  [[nodiscard]] double at(double us) const {
    return k_plot * std::log(us / least) / std::log(most / least);
  }
};

LogScale scale_of(const std::vector<Point>& points) {
  LogScale scale{points.front().proxy_us, points.front().proxy_us};
  for (const Point& point : points) {
    scale.least = std::min({scale.least, point.proxy_us, point.full_us});
    scale.most = std::max({scale.most, point.proxy_us, point.full_us});
  }
  constexpr double k_margin = 1.1;
  scale.least /= k_margin;
  scale.most *= k_margin;
  return scale;
}

std::string ticks_svg(const LogScale& scale) {
  constexpr int k_ticks = 5;
  std::string svg;
  for (int i = 0; i < k_ticks; ++i) {
    const double part = static_cast<double>(i) / (k_ticks - 1);
    const std::string label =
        fmt::format("{:.3g}", scale.least * std::pow(scale.most / scale.least, part));
    svg += text_at(k_left + part * k_plot, k_top + k_plot + 18, "middle", label);
    svg += text_at(k_left - 8, k_top + k_plot - part * k_plot + 4, "end", label);
  }
  return svg;
}

std::string scatter_svg(const SearchTrace& trace) {
  std::string svg = fmt::format(
      "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#6b7078\"/>\n",
      k_left, k_top, k_plot, k_plot);
  const std::vector<Point> points = points_of(trace);
  if (points.empty()) {
    return svg + text_at(k_left + k_plot / 2, k_top + k_plot / 2, "middle",
                         "no tile has both a proxy's and a full time");
  }
  const LogScale scale = scale_of(points);
  svg += ticks_svg(scale);
  svg += text_at(k_left + k_plot / 2, k_top + k_plot + 40, "middle", "proxy, us a run");
  svg += fmt::format(
      "<text x=\"20\" y=\"{0}\" text-anchor=\"middle\" transform=\"rotate(-90 20 {0})\">in full, "
      "us a run</text>\n<line x1=\"{1}\" y1=\"{2}\" x2=\"{3}\" y2=\"{4}\" stroke=\"#c9cdd3\"/>\n",
      k_top + k_plot / 2, k_left, k_top + k_plot, k_left + k_plot, k_top);
  for (const Point& point : points) {
    svg += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"#0b5d2a\" fill-opacity=\"0.5\" "
        "stroke=\"{}\" stroke-width=\"{}\"><title>{}: proxy {:.2f} us, in full {:.2f} "
        "us</title></circle>\n",
        k_left + scale.at(point.proxy_us), k_top + k_plot - scale.at(point.full_us),
        point.chosen ? 6 : 4, point.chosen ? "#0b3fd1" : "none", point.chosen ? 3 : 0,
        escape_xml(point.entry->tile), point.proxy_us, point.full_us);
  }
  return svg;
}

/// From dark green for the fastest to white for twice its time and more.
std::string shade(double slower) {
  const double part = std::clamp(slower, 0.0, 1.0);
  const auto mix = [&](int dark) { return std::lround(dark + part * (255 - dark)); };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(0x0b), mix(0x5d), mix(0x2a));
}

TileGridCell drawn(const SearchCell& cell) {
  return {.m1 = cell.m1,
          .n1 = cell.n1,
          .label = slower_text(cell),
          .chosen = cell.chosen,
          .tooltip = fmt::format("{} x {}: {:.2f} us {}", cell.m1, cell.n1, cell.us,
                                 cell.full ? "in full" : "by proxy"),
          .fill = shade(cell.slower),
          .ink = cell.slower < 0.5 ? "#ffffff" : "#1b1b1b"};
}

}  // namespace

std::string search_svg(const SearchTrace& trace, std::string_view title) {
  std::vector<TileGridCell> cells;
  for (const SearchCell& cell : search_cells(trace)) cells.push_back(drawn(cell));
  const TileGridPicture grid = tile_grid_svg(cells, k_grid_left, k_top);
  const double width = std::max(k_least_width, grid.right + 24);
  const double height = std::max(k_top + k_plot + 64, grid.bottom + 60);
  return svg_head(width, height, title) + scatter_svg(trace) +
         text_at(k_grid_left, 44, "start", "rows M1 (down) x columns N1 of a tile") + grid.svg +
         text_at(16, height - 8, "start",
                 "blue outline: chosen; darker: faster; ~ by proxy; grey line: equal times") +
         "</svg>\n";
}

}  // namespace spjit::cli

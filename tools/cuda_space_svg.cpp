#include "cuda_space_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace spjit::cli {
namespace {

// Lengths are in the picture's units, about a pixel each.
constexpr std::size_t k_cell_width = 52;
constexpr std::size_t k_cell_height = 28;
constexpr std::size_t k_left = 76;
constexpr std::size_t k_top = 78;
constexpr std::size_t k_least_width = 560;
constexpr std::size_t k_below = 66;

struct Paint {
  std::string fill;
  const char* text = "#1b1b1b";
};

// Told apart by lightness and letter too, not by hue alone.
const char* colour_of(CudaRule rule) {
  switch (rule) {
    case CudaRule::registers:
      return "#f4a6a0";
    case CudaRule::code_budget:
      return "#d9b8e8";
    case CudaRule::occupancy:
      return "#f7d58b";
    case CudaRule::balance:
      return "#c9cdd3";
  }
  return "#ffffff";
}

/// From dark green for the best to light green for the last.
Paint shade(std::int64_t rank, std::size_t ranked) {
  const double last = std::max(static_cast<double>(ranked) - 1, 1.0);
  const double part = rank > 0 ? static_cast<double>(rank - 1) / last : 1;
  const auto mix = [&](int dark, int light) { return std::lround(dark + part * (light - dark)); };
  return {fmt::format("#{:02x}{:02x}{:02x}", mix(0x0b, 0xc8), mix(0x5d, 0xeb), mix(0x2a, 0xcf)),
          part < 0.5 ? "#ffffff" : "#1b1b1b"};
}

Paint paint_of(const CudaSpaceCell& cell, std::size_t ranked) {
  if (cell.candidate->dropped) return {colour_of(cell.candidate->dropped->rule)};
  return shade(cell.rank, ranked);
}

std::string text_at(std::size_t x, std::size_t y, std::string_view anchor, std::string_view text) {
  return fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escape_xml(text));
}

std::string tooltip(const CudaSpaceCell& cell) {
  const CudaCandidate& c = *cell.candidate;
  const std::string why =
      c.dropped ? fmt::format("{}: {}", to_string(c.dropped->rule), c.dropped->numbers)
                : fmt::format("rank {}, {} registers, {} blocks", cell.rank, c.registers.total(),
                              c.blocks);
  return escape_xml(to_string(c.tile) + "; " + why);
}

std::string cell_svg(const CudaSpaceCell& cell, std::size_t ranked) {
  const Paint paint = paint_of(cell, ranked);
  const std::size_t x = k_left + cell.column * k_cell_width;
  const std::size_t y = k_top + cell.row * k_cell_height;
  return fmt::format(
      "<g class=\"cell\"><title>{}</title><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" "
      "fill=\"{}\" stroke=\"{}\" stroke-width=\"{}\"/><text x=\"{}\" y=\"{}\" fill=\"{}\" "
      "text-anchor=\"middle\">{}</text></g>\n",
      tooltip(cell), x + 2, y + 2, k_cell_width - 4, k_cell_height - 4, paint.fill,
      cell.chosen ? "#0b3fd1" : "#6b7078", cell.chosen ? 3 : 1, x + k_cell_width / 2, y + 19,
      paint.text, escape_xml(label_of(cell)));
}

std::string axes_svg(const CudaSpaceGrid& grid) {
  std::string svg = text_at(k_left + grid.widths.size() * k_cell_width / 2, 50, "middle",
                            "N1: columns a block (threads)");
  for (std::size_t i = 0; i < grid.widths.size(); ++i) {
    svg += text_at(k_left + i * k_cell_width + k_cell_width / 2, k_top - 8, "middle",
                   fmt::format("{}", grid.widths[i]));
  }
  for (std::size_t i = 0; i < grid.heights.size(); ++i) {
    svg += text_at(k_left - 8, k_top + i * k_cell_height + 19, "end",
                   fmt::format("{}", grid.heights[i]));
  }
  const std::size_t middle = k_top + grid.heights.size() * k_cell_height / 2;
  return svg + fmt::format(
                   "<text x=\"20\" y=\"{}\" text-anchor=\"middle\" "
                   "transform=\"rotate(-90 20 {})\">M1: rows a tile</text>\n",
                   middle, middle);
}

std::string legend_svg(std::size_t y) {
  std::string svg;
  std::size_t x = 16;
  const auto entry = [&](std::string_view fill, std::string_view stroke, std::string_view text) {
    svg += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"14\" height=\"14\" fill=\"{}\" stroke=\"{}\"/>\n", x, y,
        fill, stroke);
    svg += text_at(x + 20, y + 12, "start", text);
    x += 34 + text.size() * 7;
  };
  for (const CudaRule rule :
       {CudaRule::registers, CudaRule::code_budget, CudaRule::occupancy, CudaRule::balance}) {
    entry(colour_of(rule), "#6b7078", fmt::format("{} {}", letter_of(rule), to_string(rule)));
  }
  entry("#0b5d2a", "#6b7078", "rank");
  entry("none", "#0b3fd1", "* chosen");
  return svg;
}

}  // namespace

std::string escape_xml(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&apos;";
        break;
      default:
        escaped += code < 0x20 && c != '\t' && c != '\n' && c != '\r' ? '?' : c;
    }
  }
  return escaped;
}

std::string cuda_space_svg(const CudaSpaceView& view, std::string_view title) {
  const CudaSpaceGrid grid = make_grid(view);
  const std::size_t width =
      std::max(k_least_width, k_left + grid.widths.size() * k_cell_width + 16);
  const std::size_t bottom = k_top + grid.heights.size() * k_cell_height;
  const std::size_t height = bottom + k_below;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#1b1b1b\">\n"
      "<title>{2}</title>\n<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
      width, height, escape_xml(title));
  svg += text_at(width / 2, 24, "middle", title);
  svg += axes_svg(grid);
  for (const CudaSpaceCell& cell : grid.cells) svg += cell_svg(cell, view.ranked.size());
  svg += legend_svg(bottom + 24);
  return svg + "</svg>\n";
}

}  // namespace spjit::cli

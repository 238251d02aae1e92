#include "tools/report/tile_grid.hpp"

#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>

#include "tools/report/table.hpp"

namespace spjit::cli {
namespace {

// Lengths are in the picture's units, about a pixel each.
constexpr double k_cell_width = 64;
constexpr double k_cell_height = 28;

/// Values in ascending order, each once.
std::set<std::int64_t> sides(const std::vector<TileGridCell>& cells,
                             std::int64_t TileGridCell::*side) {
  std::set<std::int64_t> values;
  for (const TileGridCell& cell : cells) values.insert(cell.*side);
  return values;
}

}  // namespace

std::string tile_grid_text(const std::vector<TileGridCell>& cells, const Terminal& terminal) {
  const std::set<std::int64_t> widths = sides(cells, &TileGridCell::n1);
  std::vector<Column> columns = {{"M1 \\ N1"}};
  for (const std::int64_t width : widths) columns.push_back({std::to_string(width)});
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> labels;
  for (const TileGridCell& cell : cells) {
    labels[{cell.m1, cell.n1}] = (cell.chosen ? "*" : "") + cell.label;
  }
  Table table(std::move(columns));
  for (const std::int64_t m1 : sides(cells, &TileGridCell::m1)) {
    std::vector<std::string> line = {std::to_string(m1)};
    for (const std::int64_t width : widths) line.push_back(labels[{m1, width}]);
    table.add(std::move(line));
  }
  return table.text(terminal);
}

TileGridPicture tile_grid_svg(const std::vector<TileGridCell>& cells, double left, double top) {
  TileGridPicture picture{{}, left, top};
  std::map<std::int64_t, double> columns;
  std::map<std::int64_t, double> rows;
  for (const std::int64_t n1 : sides(cells, &TileGridCell::n1)) {
    columns[n1] = picture.right;
    picture.svg += text_at(picture.right + k_cell_width / 2, top - 8, "middle", std::to_string(n1));
    picture.right += k_cell_width;
  }
  for (const std::int64_t m1 : sides(cells, &TileGridCell::m1)) {
    rows[m1] = picture.bottom;
    picture.svg += text_at(left - 8, picture.bottom + 19, "end", std::to_string(m1));
    picture.bottom += k_cell_height;
  }
  for (const TileGridCell& cell : cells) {
    const double x = columns[cell.n1];
    const double y = rows[cell.m1];
    picture.svg += fmt::format(
        "<g><title>{}</title><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" "
        "stroke=\"{}\" stroke-width=\"{}\"/><text x=\"{}\" y=\"{}\" text-anchor=\"middle\" "
        "fill=\"{}\">{}</text></g>\n",
        escape_xml(cell.tooltip), x + 2, y + 2, k_cell_width - 4, k_cell_height - 4, cell.fill,
        cell.chosen ? "#0b3fd1" : "#6b7078", cell.chosen ? 3 : 1, x + k_cell_width / 2, y + 19,
        cell.ink, escape_xml(cell.label));
  }
  return picture;
}

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

std::string text_at(double x, double y, std::string_view anchor, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escape_xml(text));
}

std::string svg_head(double width, double height, std::string_view title) {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
             "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"13\" "
             "fill=\"#1b1b1b\">\n<title>{2}</title>\n<rect width=\"{0}\" height=\"{1}\" "
             "fill=\"#ffffff\"/>\n",
             width, height, escape_xml(title)) +
         text_at(width / 2, 24, "middle", title);
}

}  // namespace spjit::cli

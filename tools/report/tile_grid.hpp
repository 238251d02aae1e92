#pragma once

/// @file
/// Tiles in a grid of M1 x N1, as text and as part of a picture, and what all pictures have.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/report/terminal.hpp"

namespace spjit::cli {

/// The cell of one place of the grid; places without a cell are empty.
struct TileGridCell {
  std::int64_t m1 = 0;
  std::int64_t n1 = 0;
  std::string label;
  bool chosen = false;
  // Members of a picture:
  std::string tooltip = {};
  std::string fill = "#ffffff";
  std::string ink = "#1b1b1b";
};

/// A table; a '*' marks the chosen cell.
[[nodiscard]] std::string tile_grid_text(const std::vector<TileGridCell>& cells,
                                         const Terminal& terminal);

/// A part of an SVG document. The chosen cell is outlined.
struct TileGridPicture {
  std::string svg;
  double right = 0;  ///< where it ends
  double bottom = 0;
};

/// With the sides above and to the left of the place where the cells begin.
[[nodiscard]] TileGridPicture tile_grid_svg(const std::vector<TileGridCell>& cells, double left,
                                            double top);

/// `text` with the five characters escaped that mean something in XML; control characters other
/// than tab and line breaks, which XML 1.0 has no way to write, become '?'.
[[nodiscard]] std::string escape_xml(std::string_view text);

/// A line of text at a place; `anchor`: "start", "middle" or "end".
[[nodiscard]] std::string text_at(double x, double y, std::string_view anchor,
                                  std::string_view text);

/// The beginning of a document of that size with a white background and its title.
[[nodiscard]] std::string svg_head(double width, double height, std::string_view title);

}  // namespace spjit::cli

#pragma once

/// @file
/// Tiles in a grid of M1 x N1, as text and as part of a picture.

#include <cstdint>
#include <string>
#include <vector>

#include "terminal.hpp"

namespace spjit::cli {

/// What the grid says of one place; places without a cell are empty.
struct TileGridCell {
  std::int64_t m1 = 0;
  std::int64_t n1 = 0;
  std::string label;
  bool chosen = false;
  // Of a picture:
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

}  // namespace spjit::cli

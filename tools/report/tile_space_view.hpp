#pragma once

/// @file
/// A tile space of a record as text and as a picture.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/report/terminal.hpp"

namespace spjit::cli {

/// A candidate of the space.
struct TileSpaceCell {
  std::string tile;         ///< name
  std::string description;  ///< its numbers, or the rule that dropped it and the rule's numbers
  std::string rule;         ///< that dropped it; empty: none did
  std::int64_t m1 = 0;
  std::int64_t n1 = 0;    ///< 0: the family's tiles have none
  std::int64_t rank = 0;  ///< 1 is the best; 0: dropped, or not ranked
  bool chosen = false;
};

struct TileSpaceView {
  std::vector<TileSpaceCell> cells;  ///< as the space's candidates
  std::vector<std::string> rules;    ///< that dropped some, in order of name
  bool has_grid = false;             ///< every candidate has a place and was ranked or dropped
};

/// View of the member "space" of a record's search (KernelFamily::explain()).
[[nodiscard]] TileSpaceView view_of(const Json& space, std::string_view chosen);

/// Its cells, one a place of the grid: of several tiles of one M1 and N1 the chosen one, else the
/// one that ranks best, else the first.
[[nodiscard]] std::vector<TileSpaceCell> grid_cells(const TileSpaceView& view);

/// The first letter of its name.
[[nodiscard]] char letter_of(std::string_view rule);

/// Label of a cell: the letter of the rule that dropped it, its rank, or "?" without one.
[[nodiscard]] std::string label_of(const TileSpaceCell& cell);

/// The grid and a line that explains it, where there is one; then every candidate: ranked ones best
/// first, then the others, each with its numbers. The chosen one is marked with '*'.
[[nodiscard]] std::string tile_space_table(const Json& space, std::string_view chosen,
                                           const Terminal& terminal);

/// A self-contained SVG document: the M1 x N1 grid, a colour a rule, survivors the darker the
/// better they rank, the chosen tile outlined, a legend. Its own background, so that it is readable
/// on light and dark pages. `title` (UTF-8) is any text; a cell's tooltip has its numbers.
[[nodiscard]] std::string tile_space_svg(const Json& space, std::string_view chosen,
                                         std::string_view title);

}  // namespace spjit::cli

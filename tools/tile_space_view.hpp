#pragma once

/// @file
/// A tile space of a record as text and as a picture.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "terminal.hpp"

namespace spjit::cli {

/// A place in the M1 x N1 grid that has a candidate.
struct TileSpaceCell {
  std::string tile;         ///< name
  std::string description;  ///< its numbers, or the rule that dropped it and the rule's numbers
  std::string rule;         ///< that dropped it; empty: none did
  std::size_t row = 0;      ///< index into `heights`
  std::size_t column = 0;   ///< index into `widths`
  std::int64_t rank = 0;    ///< 1 is the best; 0: dropped, or not ranked
  bool chosen = false;
};

struct TileSpaceGrid {
  std::vector<std::int64_t> heights;  ///< M1, ascending
  std::vector<std::int64_t> widths;   ///< N1, ascending
  std::vector<TileSpaceCell> cells;   ///< as the space's candidates
  std::vector<std::string> rules;     ///< that dropped some, in order of name
};

/// Of the member "space" of a record's search (KernelFamily::explain()). Without `heights` and
/// `widths` where the candidates have no place in a grid or no rank.
[[nodiscard]] TileSpaceGrid make_grid(const Json& space, std::string_view chosen);

/// The first letter of its name.
[[nodiscard]] char letter_of(std::string_view rule);

/// What a cell says: the letter of the rule that dropped it, its rank, or "?" without one.
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

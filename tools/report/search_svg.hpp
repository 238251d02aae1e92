#pragma once

/// @file
/// A search's trace as a picture.

#include <string>
#include <string_view>

#include "kernels/tuning/search_trace.hpp"

namespace spjit::cli {

/// A self-contained SVG document on its own background: on the left proxy time against full time of
/// every tile that has both, both axes logarithmic with the line where they are equal; on the right
/// the M1 x N1 grid, a cell the darker the faster its best tile, with how much slower than the
/// fastest it is. The chosen tile is outlined in both. Tooltips have the numbers. `title` (UTF-8)
/// is any text.
[[nodiscard]] std::string search_svg(const SearchTrace& trace, std::string_view title);

}  // namespace spjit::cli

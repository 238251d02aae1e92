#pragma once

/// @file
/// A search's trace as a picture.

#include <string>
#include <string_view>

#include "kernels/tuning/search_trace.hpp"

namespace spjit::cli {

/// A self-contained SVG document on its own background. On the left is proxy time against full time
/// of every tile that has both, on logarithmic axes with the line where they are equal. On the
/// right is the M1 x N1 grid. A cell is the darker the faster its best tile is, and says how much
/// slower than the fastest that is. The chosen tile is outlined in both. Tooltips have the numbers.
/// `title` (UTF-8) is any text.
[[nodiscard]] std::string search_svg(const SearchTrace& trace, std::string_view title);

}  // namespace spjit::cli

#pragma once

/// @file
/// The CUDA tile space as a picture.

#include <string>
#include <string_view>

#include "cuda_space_table.hpp"

namespace spjit::cli {

/// `text` with the five characters escaped that mean something in XML; control characters other
/// than tab and line breaks, which XML 1.0 has no way to write, become '?'.
[[nodiscard]] std::string escape_xml(std::string_view text);

/// A self-contained SVG document: the M1 x N1 grid, a colour a rule, survivors the darker the
/// better they rank, the chosen tile outlined, a legend. Its own background, so that it is readable
/// on light and dark pages. `title` (UTF-8) is any text; a cell's tooltip has its numbers.
[[nodiscard]] std::string cuda_space_svg(const CudaSpaceView& view, std::string_view title);

}  // namespace spjit::cli

#pragma once

/// @file
/// What all pictures have: text, and a page with a title.

#include <string>
#include <string_view>

namespace spjit::cli {

/// `text` with the five characters escaped that mean something in XML; control characters other
/// than tab and line breaks, which XML 1.0 has no way to write, become '?'.
[[nodiscard]] std::string escape_xml(std::string_view text);

/// A line of text at a place; `anchor`: "start", "middle" or "end".
[[nodiscard]] std::string text_at(double x, double y, std::string_view anchor,
                                  std::string_view text);

/// The beginning of a document of that size with a white background and its title.
[[nodiscard]] std::string svg_head(double width, double height, std::string_view title);

}  // namespace spjit::cli

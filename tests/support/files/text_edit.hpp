#pragma once

/// @file
/// Exact edits of text, for mutation checks, and what is in it.

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace spjit::testing_support {

/// The text with the first `from` replaced. Throws if it is not there: a mutation that changes
/// nothing proves nothing.
[[nodiscard]] inline std::string replace_first(std::string text, std::string_view from,
                                               std::string_view to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::runtime_error("no '" + std::string(from) + "' to mutate");
  return text.replace(at, from.size(), to);
}

/// The first line that has `part`, with its line break.
[[nodiscard]] inline std::string line_with(const std::string& text, std::string_view part,
                                           std::size_t from = 0) {
  const std::size_t at = text.find(part, from);
  if (at == std::string::npos) throw std::runtime_error("no line with '" + std::string(part) + "'");
  const std::size_t begin = text.rfind('\n', at) + 1;
  return text.substr(begin, text.find('\n', at) + 1 - begin);
}

/// The text without the first line that has `part`.
[[nodiscard]] inline std::string drop_line(const std::string& text, std::string_view part) {
  return replace_first(text, line_with(text, part), "");
}

/// How often `part` is in the text; those that overlap count too.
[[nodiscard]] inline std::size_t occurrences(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

}  // namespace spjit::testing_support

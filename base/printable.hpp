#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace spjit {

/// Text out of a file, fit for a message of one line: what is not printable ASCII is a '?', and
/// after `most` bytes there are dots.
[[nodiscard]] inline std::string printable(std::string_view text, std::size_t most = 200) {
  std::string result(text.substr(0, most));
  std::ranges::replace_if(
      result, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text.size() > most ? result + "..." : result;
}

/// Text with names of files in it, fit for one line of a terminal. UTF-8 stays. A '?' replaces each
/// control character, line or paragraph separator and sign that changes the direction of writing.
/// So it does each byte that is not UTF-8.
[[nodiscard]] std::string one_line(std::string_view text);

}  // namespace spjit

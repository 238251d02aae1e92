#pragma once

/// @file
/// `--help` as a manual page.

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace spjit::cli {

/// What a manual page has beside the options, which come from the parser itself.
struct Manual {
  std::string name;                   ///< "spjit compile"
  std::string summary;                ///< one line
  std::vector<std::string> synopsis;  ///< without the name
  std::string description;            ///< paragraphs, an empty line between
  std::vector<std::string> examples;  ///< commands
};

/// Gives a (sub)command its manual page.
void set_manual(CLI::App& app, Manual manual);

/// Breaks text at spaces into lines of at most `columns` characters that begin with `indent`
/// spaces. A line that begins with a space is kept as it is.
[[nodiscard]] std::string wrap(std::string_view text, std::size_t indent, std::size_t columns = 79);

}  // namespace spjit::cli

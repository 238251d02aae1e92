#pragma once

/// @file
/// `--help` as a manual page: a text of tools/manual/, with what the parser knows put in.

#include <CLI/CLI.hpp>
#include <span>
#include <string_view>

#include "base/embedded_file.hpp"

namespace spjit {

/// The files tools/manual/*.txt. Defined by a source that the build generates.
extern const std::span<const EmbeddedFile> k_manual_pages;

namespace cli {

/// Gives a (sub)command its manual page, tools/manual/PAGE.txt: NAME (with the summary after a
/// dash), SYNOPSIS, DESCRIPTION and EXAMPLES as they are printed. Commands, arguments and options
/// are the parser's; environment and exit status, in common.txt, are every command's.
void set_manual(CLI::App& app, std::string_view page);

}  // namespace cli
}  // namespace spjit

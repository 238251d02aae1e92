#pragma once

/// @file
/// Files of the source tree that are part of a program or library. `spjit_embed_files()` of
/// cmake/SpjitCompile.cmake makes lists of them.

#include <span>
#include <string_view>

namespace spjit {

struct EmbeddedFile {
  std::string_view name;  ///< without its folder and extension
  std::span<const unsigned char> bytes;
};

}  // namespace spjit

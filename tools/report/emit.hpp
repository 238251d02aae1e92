#pragma once

/// @file
/// Files that `spjit compile --out` writes for a layer.

#include <filesystem>
#include <string>
#include <vector>

#include "spjit/kernel.hpp"
#include "tools/report/terminal.hpp"

namespace spjit::cli {

struct EmitOptions {
  std::filesystem::path directory;  ///< empty: nothing is written
  std::vector<std::string> kinds;   ///< checked_kinds(); empty: all that are written by default
};

/// The kinds in the order in which they are written: "obj", "header", "asm" and "json" for the
/// host, "cubin", "cu", "ptx", "positions", "matrix" and "json" for a GPU. Throws InvalidArgument
/// for anything else.
[[nodiscard]] std::vector<std::string> checked_kinds(const std::vector<std::string>& kinds,
                                                     const Target& target);

/// Whether one of them is a source of a GPU kernel, which is there with
/// CompileOptions::keep_source.
[[nodiscard]] bool needs_source(const std::vector<std::string>& kinds);

/// Makes the directory if need be. Throws IoError if it cannot be made or written to.
void prepare_directory(const std::filesystem::path& directory);

/// Writes a file a kind, called after `name` (a C identifier), each published by rename; returns
/// their paths. Throws IoError, NotSupported for "asm" without LLVM.
std::vector<std::filesystem::path> emit_files(const EmitOptions& options, const std::string& name,
                                              const Kernel& kernel, const Json& layer);

}  // namespace spjit::cli

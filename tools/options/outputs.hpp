#pragma once

/// @file
/// Files that a command writes must not be those that it reads: these would be lost.

#include <filesystem>
#include <string_view>
#include <vector>

#include "tools/options/kernel_options.hpp"

namespace spjit::cli {

/// A model's file, and of an index its parts.
[[nodiscard]] std::vector<std::filesystem::path> files_of_model(const std::filesystem::path& model);

/// All that a command reads that has these inputs and options.
[[nodiscard]] std::vector<std::filesystem::path> files_read(const std::vector<std::string>& inputs,
                                                            const KernelOptions& options);

/// Throws UsageError where `out`, the file of `option`, is one of `others` by whatever path. Empty
/// paths are no files.
void require_apart(std::string_view option, const std::filesystem::path& out,
                   const std::vector<std::filesystem::path>& others);

}  // namespace spjit::cli

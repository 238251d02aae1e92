#pragma once

/// @file
/// Whole files in and out.

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

namespace spjit {

/// Everything a file holds. Throws IoError.
[[nodiscard]] std::vector<std::byte> read_file(const std::filesystem::path& path);

/// Writes a temporary file beside `path`, flushes it to the disk, then renames it to `path`: a
/// reader sees the old file or the new one, whole. The temporary file is removed if anything fails.
/// Throws IoError.
void publish_file(const std::filesystem::path& path, std::span<const std::byte> contents);

}  // namespace spjit

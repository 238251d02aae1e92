#pragma once

/// @file
/// Files of measured tiles and of models, plain or compressed with gzip.

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "kernels/unrolled_host/host_samples.hpp"

namespace spjit {

/// The whole file; what begins like a gzip stream is decompressed. Throws IoError if it cannot be
/// read, Error if it is damaged or its text is longer than `limit_bytes`.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path,
                                         std::size_t limit_bytes);

/// Groups in the order of their lines. Throws as read_text_file(); Error that names file and line
/// for a line that holds no samples.
[[nodiscard]] std::vector<HostSampleGroup> read_sample_file(const std::filesystem::path& path);

}  // namespace spjit

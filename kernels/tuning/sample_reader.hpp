#pragma once

/// @file
/// Files of measured tiles and of models, plain or compressed with gzip.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/tuning/tile_samples.hpp"

namespace spjit {

/// The whole file; what begins like a gzip stream is decompressed. Throws IoError if it cannot be
/// read, Error if it is damaged or its text is longer than `limit_bytes`.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path,
                                         std::size_t limit_bytes);

/// Calls `take` with each line of a file of samples, in their order. Throws as read_text_file();
/// Error that names file and line for what `take` throws as one.
void for_each_sample_line(const std::filesystem::path& path,
                          const std::function<void(std::string_view)>& take);

/// Results of `read` for each line, such as read_sample_line. Throws as for_each_sample_line().
template <class Group>
[[nodiscard]] std::vector<Group> read_sample_file(const std::filesystem::path& path,
                                                  Group (*read)(std::string_view)) {
  std::vector<Group> groups;
  for_each_sample_line(path, [&](std::string_view line) { groups.push_back(read(line)); });
  return groups;
}

}  // namespace spjit

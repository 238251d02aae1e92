#pragma once

/// @file
/// A file of samples that is added to, line by line, over many runs.

#include <cstddef>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>

#include "base/file_descriptor.hpp"
#include "kernels/tuning/tile_samples.hpp"

namespace spjit {

/// Opened for appending. A line is on the disk before the next is measured, so a process that is
/// killed at any moment loses at most the group it was measuring. Half a line that it left at the
/// end is cut off here.
class SampleFile {
 public:
  /// Makes the file if there is none, else reads it. Throws IoError if it cannot be opened or
  /// is in use by another process that adds to it, Error that names the line if it holds anything
  /// but samples of that family with times of that kind.
  SampleFile(const std::filesystem::path& path, std::string_view family, TimeKind times);

  [[nodiscard]] bool has(const std::string& name) const { return names_.contains(name); }
  [[nodiscard]] std::size_t size() const noexcept { return names_.size(); }
  /// Where it is.
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// Bytes of an unfinished line that were cut off.
  [[nodiscard]] std::size_t cut_bytes() const noexcept { return cut_bytes_; }

  /// Throws IoError; then nothing of the line stays in the file.
  void append(const SampleLine& line);

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  std::set<std::string> names_;
  std::size_t bytes_ = 0;
  std::size_t cut_bytes_ = 0;
};

}  // namespace spjit

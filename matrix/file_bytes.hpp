#pragma once

/// @file
/// Whole files in and out.

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

namespace spjit {

/// Everything a regular file holds. Throws IoError, also for anything else (a FIFO, a device, a
/// socket: none is waited for) and for a file larger than the machine's memory.
[[nodiscard]] std::vector<std::byte> read_file(const std::filesystem::path& path);

/// A temporary file beside `target`, removed unless it is published. Throws IoError.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& target);
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile();

  void write(std::span<const std::byte> contents);

  /// Flushes it to the disk, then renames it to `target`; nothing may be written after.
  void publish(const std::filesystem::path& target);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  bool published_ = false;
};

/// Writes a temporary file beside `path`, flushes it to the disk, then renames it to `path`: a
/// reader sees the old file or the new one, whole. The temporary file is removed if anything fails.
/// Throws IoError.
void publish_file(const std::filesystem::path& path, std::span<const std::byte> contents);

}  // namespace spjit

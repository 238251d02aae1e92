#pragma once

/// @file
/// The directories of a cache: which there are, and how an entry comes into being. Internal to
/// CacheStore.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/file_descriptor.hpp"

namespace spjit {

inline constexpr std::string_view k_cache_temporary_name = "tmp";

/// 16 random hexadecimal digits: a name nobody else has.
[[nodiscard]] std::string random_hex();

/// Paths in a directory, ascending; none if it cannot be read or does not exist.
[[nodiscard]] std::vector<std::filesystem::path> children(const std::filesystem::path& directory);

/// Whether it is a directory itself, not a link to one.
[[nodiscard]] bool is_real_directory(const std::filesystem::path& path);

/// The entry directories of a cache, ascending by key.
[[nodiscard]] std::vector<std::filesystem::path> entry_directories(
    const std::filesystem::path& root);

/// The sum over the files in a directory, not in those below it.
[[nodiscard]] std::int64_t bytes_of_files(const std::filesystem::path& directory);

/// Last change of the path itself; nothing if it is gone.
[[nodiscard]] std::optional<std::chrono::system_clock::time_point> modified(
    const std::filesystem::path& path);

/// Removes what is in `directory` and was last changed longer than `age` ago; ignores failures.
void remove_older(const std::filesystem::path& directory, std::chrono::hours age);

/// A directory in tmp/ that vanishes with all it holds unless it was committed.
class TemporaryEntry {
 public:
  /// Creates it. Throws CacheError.
  explicit TemporaryEntry(const std::filesystem::path& root);
  TemporaryEntry(const TemporaryEntry&) = delete;
  TemporaryEntry& operator=(const TemporaryEntry&) = delete;
  ~TemporaryEntry();

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  /// Writes a file into it. Throws CacheError.
  void add(std::string_view name, std::span<const std::byte> bytes);

  /// Waits until all files are on the disk, then renames the directory to `entry`
  /// (root/shard/key). The rename itself is not waited for: a crash right after may lose the entry,
  /// never tear it. False if there is an entry already: then nothing changes. Throws CacheError.
  [[nodiscard]] bool commit(const std::filesystem::path& entry);

 private:
  std::filesystem::path path_;
  std::vector<std::pair<std::filesystem::path, FileDescriptor>> unsynced_;
  bool committed_ = false;
};

}  // namespace spjit

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
inline constexpr std::string_view k_cache_damaged_name = "damaged";

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

/// How far clocks of machines that share a cache may be apart. What lies further in the future was
/// written under a wrong clock: it counts as the oldest there is.
inline constexpr auto k_cache_clock_skew = std::chrono::hours(1);

/// How long ago `time` was; the longest there is for a time beyond k_cache_clock_skew.
[[nodiscard]] std::chrono::system_clock::duration cache_age(
    std::chrono::system_clock::time_point time, std::chrono::system_clock::time_point now) noexcept;

/// Removes what is in `directory` and was last changed longer than `age` ago; ignores failures.
void remove_older(const std::filesystem::path& directory, std::chrono::hours age);

enum class SetAside {
  moved,
  gone,   ///< somebody else has moved or replaced it
  stuck,  ///< it cannot be moved: no permission, a read-only file system
};

/// Moves what is named `entry`, if it still is `identity`, to damaged/ of `root`.
[[nodiscard]] SetAside set_aside(const std::filesystem::path& root,
                                 const std::filesystem::path& entry, const FileIdentity& identity);

/// Moves an entry into tmp/ of `root` in one step, so that nobody sees half of it, and removes it
/// there. False if there is none. Throws CacheError.
bool remove_entry(const std::filesystem::path& root, const std::filesystem::path& entry);

/// Renames the directory `temporary`, which is `identity`, to `entry` (root/shard/key), making the
/// shard. False if there is an entry already. A network file system may repeat a rename whose
/// answer was lost, and report the failure of the second: so after a failure the directory is
/// looked for at both places. Throws CacheError.
[[nodiscard]] bool rename_into_place(const std::filesystem::path& temporary,
                                     const FileIdentity& identity,
                                     const std::filesystem::path& entry);

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

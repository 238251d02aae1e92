#pragma once

/// @file
/// The directories of a cache: which there are, and how an entry comes into being. Internal to
/// CacheStore and what writes to its tmp/.

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

#include "base/file_descriptor.hpp"
#include "runtime/cache/cache_entry.hpp"

namespace spjit {

inline constexpr std::string_view k_cache_temporary_name = "tmp";
inline constexpr std::string_view k_cache_damaged_name = "damaged";

/// 16 random hexadecimal digits: a name nobody else has.
[[nodiscard]] std::string random_hex();

/// The reaction to a directory that exists and cannot be read.
enum class Unreadable {
  is_empty,  ///< it counts as empty
  fails,     ///< CacheError
};

/// Paths in a directory, ascending; none if it does not exist.
[[nodiscard]] std::vector<std::filesystem::path> children(
    const std::filesystem::path& directory, Unreadable unreadable = Unreadable::is_empty);

/// Whether it is a directory itself, not a link to one.
[[nodiscard]] bool is_real_directory(const std::filesystem::path& path);

/// The entry directories of a cache, ascending by key. Throws CacheError if one cannot be listed.
[[nodiscard]] std::vector<std::filesystem::path> entry_directories(
    const std::filesystem::path& root);

/// The sum over the files in a directory, not in those below it.
[[nodiscard]] std::int64_t bytes_of_files(const std::filesystem::path& directory);

/// Last change of the path itself; nothing if it is gone.
[[nodiscard]] std::optional<std::chrono::system_clock::time_point> modified(
    const std::filesystem::path& path);

/// Limit for times in the future. A later time was written before the clock was set back; where the
/// oldest entries go, it counts as the oldest.
inline constexpr auto k_cache_clock_skew = std::chrono::hours(1);

/// How long ago `time` was; the longest there is for a time beyond k_cache_clock_skew.
[[nodiscard]] std::chrono::system_clock::duration cache_age(
    std::chrono::system_clock::time_point time, std::chrono::system_clock::time_point now) noexcept;

/// Now, by the clock of the file system that holds the cache: the time that it gives to a new
/// directory in tmp/. Times in the cache can be compared with it, whatever this machine's clock
/// shows. This machine's where nothing can be written.
[[nodiscard]] std::chrono::system_clock::time_point cache_now(const std::filesystem::path& root);

/// Removes those of `paths` that were last changed longer than `age` ago by `cache_now()`. What was
/// changed in the future is made as if it were changed now, so that it goes later: it may be in use
/// by somebody who began before a clock was set back. Ignores failures.
void remove_older(const std::filesystem::path& root,
                  const std::vector<std::filesystem::path>& paths, std::chrono::hours age);

enum class SetAside {
  moved,
  gone,   ///< somebody else has moved or replaced it
  stuck,  ///< it cannot be moved: no permission, a read-only file system
};

/// Moves what is named `entry`, if it still is `identity`, to damaged/ of `root`.
[[nodiscard]] SetAside set_aside(const std::filesystem::path& root,
                                 const std::filesystem::path& entry, const FileIdentity& identity);

/// Moves what is at `path`, below `root`, to a new name in tmp/, in one step, so that nobody sees
/// half of it when it is removed there, nor makes an entry of that half. Needs no room on the disk.
/// The new name; nothing if there is nothing at `path`. Throws CacheError.
[[nodiscard]] std::optional<std::filesystem::path> bury(const std::filesystem::path& root,
                                                        const std::filesystem::path& path);

/// Buries an entry and removes it. False if there is none. Throws CacheError.
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

  /// Waits until all files are on the disk, if told to, then renames the directory to `entry`
  /// (root/shard/key). The rename itself is not waited for. False if there is an entry already:
  /// then nothing changes. Throws CacheError.
  [[nodiscard]] bool commit(const std::filesystem::path& entry, EntrySync sync = EntrySync::yes);

 private:
  std::filesystem::path path_;
  std::vector<std::pair<std::filesystem::path, FileDescriptor>> unsynced_;
  bool committed_ = false;
};

}  // namespace spjit

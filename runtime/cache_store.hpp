#pragma once

/// @file
/// A directory of compiled kernels, shared by processes and threads.
///
///     cache     = "CACHEDIR.TAG" "tmp"/ "damaged"/ shard*
///     shard     = 2 hex "/" entry*              the first two digits of its entries' keys
///     entry     = 64 hex "/" file* "record.json"
///     temporary = "tmp/" pid "-" 16 hex "/"     an entry being written
///     damaged   = "damaged/" 64 hex "-" 16 hex "/"
///
/// An entry appears by one rename of a complete, synced temporary directory, and never changes
/// after (but for the modification time of record.json, which is when it was last used).
/// docs/cache-format.md has the whole format.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cache_record.hpp"
#include "runtime/compile_cancel.hpp"
#include "runtime/file_descriptor.hpp"

namespace spjit {

/// A file to be published. `bytes` is borrowed for the call.
struct CacheFile {
  std::string name;  ///< see `is_cache_file_name()`; unique within an entry
  std::span<const std::byte> bytes;
};

/// An entry read and verified: its own copy of the files, so nothing that happens to the directory
/// later (mapped files end in SIGBUS when truncated) reaches it.
struct CacheEntry {
  CacheRecord record;
  std::map<std::string, FileBytes, std::less<>> files;

  /// The content of a file. Throws CacheError that names it if it was not read.
  [[nodiscard]] std::span<const std::byte> file(std::string_view name) const;
};

struct CacheLookup {
  std::optional<CacheEntry> entry;
  /// Why there is no entry, one line; empty if there simply is none.
  std::string miss_reason;
};

enum class PublishResult {
  published,
  already_there,  ///< another process or thread was first; its entry stays
};

struct CacheListing {
  std::string key;
  std::optional<CacheRecord> record;  ///< absent if it cannot be read; then `problem` says why
  std::string problem;
  std::int64_t bytes = 0;                           ///< of all files, record.json included
  std::chrono::system_clock::time_point last_used;  ///< published or looked up
};

struct CacheClearResult {
  std::int64_t entries = 0;  ///< temporary and damaged ones included
  std::int64_t bytes = 0;    ///< of their files
};

/// A plain value: a path and a version. All members are safe to call from any number of threads and
/// processes at once. Whoever can write to the directory can run code as its users: directories are
/// created with mode 0700, files with 0600.
class CacheStore {
 public:
  /// Names a cache; nothing is created before the first `publish()`. `spjit_version` goes into
  /// records, and entries of another version are misses. Throws CacheError if `root` exists and is
  /// neither an empty directory nor a cache. In an existing cache, what was left in tmp/ over an
  /// hour ago and in damaged/ over a week ago is removed (failures to do so are ignored).
  CacheStore(std::filesystem::path root, std::string spjit_version);

  [[nodiscard]] const std::filesystem::path& root() const noexcept { return root_; }

  /// The entry, with the files named in `wanted` (empty: all of them) read and verified against
  /// their checksums; of the others, only the sizes are checked. An entry that is damaged or of
  /// another version is moved to damaged/ and is a miss with a reason; nothing is ever thrown for
  /// what is found on the disk. Throws InvalidArgument if `key` is none.
  [[nodiscard]] CacheLookup lookup(std::string_view key,
                                   std::span<const std::string_view> wanted = {}) const;

  /// Makes an entry of `files` and `kernel` appear, whole, its content on the disk before its name,
  /// or throws and leaves nothing behind. Waits for the disk: 1 to 30 ms, more if it is busy.
  /// Throws CacheError (no space, no permission, ...), InvalidArgument for a bad key or file name;
  /// what `cancel` throws, which is asked before each file and before the disk is waited for.
  PublishResult publish(std::string_view key, std::span<const CacheFile> files,
                        const nlohmann::json& kernel, const CompileCancel& cancel = {}) const;

  /// By key, ascending; damaged entries are listed with their problem. Checksums of files are not
  /// verified. Throws CacheError if the directory cannot be read.
  [[nodiscard]] std::vector<CacheListing> list() const;

  /// Whether there was such an entry. Throws InvalidArgument if `key` is none, CacheError.
  bool remove(std::string_view key) const;

  /// Removes every entry, temporary and damaged ones too; anything not named as in the grammar
  /// above stays. Throws CacheError, without removing anything, if CACHEDIR.TAG does not say that
  /// this is a cache of spjit; a directory that does not exist is empty.
  CacheClearResult clear() const;

 private:
  [[nodiscard]] std::filesystem::path entry_path(std::string_view key) const;
  [[nodiscard]] bool is_cache() const;
  void create_root() const;
  void sweep() const;

  std::filesystem::path root_;
  std::string spjit_version_;
};

}  // namespace spjit

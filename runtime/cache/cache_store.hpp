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
/// docs/design/cache-format.md has the format, docs/use/cache.md what the file system must do.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.hpp"
#include "runtime/cache/cache_entry.hpp"
#include "runtime/cache/cache_layer.hpp"
#include "runtime/cache/cache_record.hpp"
#include "runtime/cache/cache_reports.hpp"

namespace spjit {

/// An entry used or published less than this ago is in use: no limit and no `prune()` removes it.
inline constexpr auto k_cache_in_use = std::chrono::seconds(60);

class TemporaryEntry;

/// A file to be published. `bytes` is borrowed for the call.
struct CacheFile {
  std::string name;  ///< see `is_cache_file_name()`; unique within an entry
  std::span<const std::byte> bytes;
};

/// The record of an entry that is made now.
[[nodiscard]] CacheRecord make_cache_record(std::string_view key, const std::string& spjit_version,
                                            std::span<const CacheFile> files,
                                            const nlohmann::json& kernel);

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

struct CacheVerifyResult {
  std::int64_t entries = 0;  ///< looked at, damaged ones included
  std::int64_t bytes = 0;
  std::vector<CacheListing> damaged;  ///< each with its `problem`; moved to damaged/ if possible
};

/// The entries that `CacheStore::prune()` removes; each member adds to it.
struct CachePruneOptions {
  /// Damaged entries, then the least recently used ones go until the rest has so many bytes.
  std::optional<std::int64_t> most_bytes = {};
  std::optional<std::chrono::seconds> unused_for = {};  ///< entries not used for that long
  /// Entries of other versions of spjit or of the format, unreadable ones, and damaged/.
  bool other_versions = false;
  bool dry_run = false;  ///< remove nothing, and say what would be
};

struct CacheStoreOptions {
  /// Bytes that entries and damaged/ may have in all after a publication (docs/use/cache.md says
  /// how exactly that is kept); 0: no limit.
  std::int64_t size_limit_bytes = 0;
  /// Take a directory, and believe entries, that other users can have written.
  bool allow_unsafe = false;
  /// A layer to be read only: lookups and `verify()` change nothing, what would is a CacheError.
  bool read_only = false;
};

/// A directory, a version and options; copies share what they have reported. All members are safe
/// to call from any number of threads and processes at once. Whoever can write to the directory can
/// run code as its users: directories are created with mode 0700, files with 0400.
class CacheStore final : public CacheLayer {
 public:
  /// Names a cache; nothing is created before the first `publish()`. `spjit_version` goes into
  /// records, and entries of another version are misses. Throws CacheError if `root` exists and is
  /// neither an empty directory nor a cache, or can be written to by other users (unless allowed);
  /// a read-only cache has to exist. InvalidArgument for a limit below 0 and a path with a zero
  /// byte. In an existing cache, what was left in tmp/ over an hour ago and in damaged/ over a week
  /// ago is removed (failures to do so are ignored).
  CacheStore(std::filesystem::path root, std::string spjit_version,
             const CacheStoreOptions& options = {});

  [[nodiscard]] const std::filesystem::path& root() const noexcept { return root_; }
  [[nodiscard]] const std::string& spjit_version() const noexcept { return spjit_version_; }

  /// The entry, with the files named in `wanted` (empty: all of them) read and verified against
  /// their checksums; of the others, only the sizes are checked. Files are mapped where nobody else
  /// can change them, else copied. An entry that is damaged, of
  /// another version or not to be trusted is moved to damaged/ and is a miss with a reason; where
  /// it cannot be moved, the reason is given once. An entry that is being removed is no entry.
  /// Nothing is ever thrown for what is found on the disk. Throws InvalidArgument if `key` is none.
  [[nodiscard]] CacheLookup lookup(std::string_view key,
                                   std::span<const std::string_view> wanted = {}) const override;

  /// Treats an entry of this cache as damaged, because its content is of no use to the caller for
  /// the reason given. Returns what has to be reported, as `CacheLookup::miss_reason`.
  [[nodiscard]] std::string reject(const CacheEntry& entry, std::string_view reason) const override;

  /// Makes an entry of `files` and `kernel` appear, whole, its content on the disk before its name,
  /// or throws and leaves nothing behind; then keeps to the size limit. Unless told not to, it
  /// waits for the disk: 1 to 30 ms, more if it is busy. Throws CacheError (no space, no
  /// permission, ...), InvalidArgument for a bad key or file name; what `cancel` throws, which is
  /// asked before each file and before the disk is waited for.
  PublishResult publish(std::string_view key, std::span<const CacheFile> files,
                        const nlohmann::json& kernel, const Cancellation& cancel = {},
                        EntrySync sync = EntrySync::yes) const;

  /// A directory for what is to become an entry, which vanishes with all it holds. Makes the cache
  /// if need be. Throws CacheError.
  [[nodiscard]] TemporaryEntry make_temporary() const;

  /// By key, ascending; damaged entries are listed with their problem. Checksums of files are not
  /// verified. Throws CacheError if the directory cannot be read.
  [[nodiscard]] std::vector<CacheListing> list() const;
  [[nodiscard]] std::vector<ListedKernel> kernels() const override;

  /// Reads every entry whole and checks every checksum. Entries of other versions of spjit are
  /// checked too; of those in another format only the size is known. Times of last use stay. Throws
  /// CacheError if the directory cannot be read, or the process runs out of descriptors.
  CacheVerifyResult verify() const;

  /// The whole entry, every checksum checked, of whichever version of spjit it is. Unlike a look-up
  /// it changes nothing: neither the time of last use nor where a damaged entry lies. Throws
  /// CacheError that says what is wrong, InvalidArgument if `key` is none.
  [[nodiscard]] CacheEntry read(std::string_view key) const;

  /// Whether there was such an entry. Throws InvalidArgument if `key` is none, CacheError.
  bool remove(std::string_view key) const;

  /// Removes what the options name, never an entry in use (`k_cache_in_use`). Throws CacheError,
  /// and InvalidArgument for a number below 0. A dry run also works on a cache that is only read.
  CacheClearResult prune(const CachePruneOptions& options) const;

  /// Removes every entry, temporary and damaged ones too; anything not named as in the grammar
  /// above stays. Throws CacheError, without removing anything, if CACHEDIR.TAG does not say that
  /// this is a cache of spjit; a directory that does not exist is empty.
  CacheClearResult clear() const;

 private:
  /// Throws InvalidArgument if `key` is none.
  [[nodiscard]] std::filesystem::path entry_path(std::string_view key) const;
  [[nodiscard]] bool is_cache() const;
  /// Whether nothing is in it but what a process has in create_root() that has not come to the tag.
  [[nodiscard]] bool is_being_made() const;
  void require_writable(std::string_view action) const;
  void create_root() const;
  void sweep() const;
  void keep_to_limit(std::string_view published_key) const;
  [[nodiscard]] CacheLookup unopened(std::string_view key, int error) const;
  [[nodiscard]] std::string discard(std::string_view key, const FileIdentity& identity,
                                    std::string_view reason) const;
  [[nodiscard]] std::string describe(std::string_view key, std::string_view reason) const;
  [[nodiscard]] std::optional<CacheListing> damaged_listing(
      const std::filesystem::path& path) const;

  std::filesystem::path root_;
  std::string spjit_version_;
  CacheStoreOptions options_;
  std::shared_ptr<CacheReports> reports_;  ///< damaged ones that cannot be moved
};

}  // namespace spjit

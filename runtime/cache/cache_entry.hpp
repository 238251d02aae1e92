#pragma once

/// @file
/// An entry of a cache in memory, and how it is read and checked.

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/file_descriptor.hpp"
#include "runtime/cache/cache_record.hpp"

namespace spjit {

class CacheLayer;

/// Files by name.
using KernelFiles = std::map<std::string, FileBytes, std::less<>>;

/// An entry read and verified. Its files are copies, which nothing reaches that happens to the
/// directory later, or mapped: then they may be removed or replaced, but not changed in place.
struct CacheEntry {
  CacheRecord record;
  KernelFiles files;
  std::filesystem::path root;  ///< of the cache it came from, for people
  FileIdentity directory;      ///< which directory was read; unused by layers that have none
  /// Which layer of a LayeredCache it came from; null if it did not come from one.
  std::shared_ptr<const CacheLayer> origin = nullptr;

  /// The content of a file. Throws CacheError that names it if it was not read.
  [[nodiscard]] std::span<const std::byte> file(std::string_view name) const;
};

/// Whether an entry is on the disk before it has its name.
enum class EntrySync : std::uint8_t {
  yes,  ///< a power failure may lose it, but not tear it
  no,   ///< it may tear it, too: its checksums find that, so it is a miss. For what is elsewhere
};

/// Requirements of an entry.
struct CacheExpectation {
  std::string_view key;
  /// Files to read; empty: all. Of the others only the sizes are checked.
  std::span<const std::string_view> wanted = {};
  std::optional<std::string_view> spjit_version = {};  ///< absent: any
  bool any_owner = false;                              ///< also what other users can have written
  bool map = false;                                    ///< files that can be are mapped
};

/// Reads the entry in an open directory. All files are opened before the first is read: removing
/// the entry meanwhile does not harm. Throws CacheError, which says what is wrong.
[[nodiscard]] CacheEntry read_cache_entry(const FileDescriptor& directory,
                                          const CacheExpectation& expected);

/// The record in an open directory, which may be any entry's. Throws CacheError.
[[nodiscard]] CacheRecord read_cache_record(const FileDescriptor& directory);

}  // namespace spjit

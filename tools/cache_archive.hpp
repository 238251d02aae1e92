#pragma once

/// @file
/// Kernels out of a cache into an archive that can be taken elsewhere, and into a cache again.
/// docs/cache-format.md has the format.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "archive_manifest.hpp"
#include "runtime/cache/cache_store.hpp"
#include "tar_archive.hpp"

namespace spjit::cli {

struct ArchiveExport {
  struct LeftOut {
    std::string key;
    std::string problem;  ///< one line
  };

  std::int64_t entries = 0;
  std::int64_t bytes = 0;         ///< of the archive
  std::vector<LeftOut> left_out;  ///< by key: what did not match its checksums
};

/// Writes the kernels of `keys` as an archive: the same kernels give the same bytes. Every checksum
/// is checked before anything is written; what fails is left out and reported, and of nothing but
/// such no archive is written at all. Reads the cache and changes nothing in it, not even the times
/// of last use. Holds one kernel in memory at a time. Throws CacheError if a kernel changes or goes
/// while it is being written, and what `write` throws: then the archive is cut short.
[[nodiscard]] ArchiveExport export_cache(const CacheStore& store, std::vector<std::string> keys,
                                         const WriteBytes& write);

struct ArchiveImport {
  std::int64_t imported = 0;
  std::int64_t already_there = 0;   ///< the cache had them; its own stay
  std::int64_t other_versions = 0;  ///< not for this version of spjit: skipped
  std::int64_t bytes = 0;           ///< of the files imported
};

/// Publishes the kernels of an archive that has `name` in errors. They are read one by one, and one
/// is published once all of it was read and matches its checksums: each is in the cache whole or
/// not at all. The first thing wrong ends the import with an IoError of one line: the archive, the
/// member, the reason, and how many kernels were imported before it, which stay. Memory: at most
/// about twice the largest kernel, which `limits` bound. Checksums tell damage, not malice: **the
/// kernels of an archive run as code of whoever uses the cache.**
[[nodiscard]] ArchiveImport import_cache(const CacheStore& store, const std::string& name,
                                         ReadBytes read, const ArchiveLimits& limits);

/// The same of an archive in memory.
[[nodiscard]] ArchiveImport import_cache(const CacheStore& store, const std::string& name,
                                         std::span<const std::byte> bytes,
                                         const ArchiveLimits& limits);

}  // namespace spjit::cli

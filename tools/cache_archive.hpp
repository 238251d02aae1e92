#pragma once

/// @file
/// Kernels out of a cache into a tar archive that can be taken elsewhere, and into a cache again.
/// libarchive reads and writes tar; docs/cache-format.md says what is in it.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/cache/cache_store.hpp"

namespace spjit::cli {

/// Takes the next bytes. May throw.
using WriteBytes = std::function<void(std::span<const std::byte>)>;

/// Fills the span from its beginning and says with how many bytes; 0 only at the end. May throw.
using ReadBytes = std::function<std::size_t(std::span<std::byte>)>;

struct ArchiveExport {
  struct LeftOut {
    std::string key;
    std::string problem;  ///< one line
  };

  std::int64_t entries = 0;
  std::int64_t bytes = 0;         ///< of the archive
  std::vector<LeftOut> left_out;  ///< by key: what did not match its checksums, or has gone
};

/// Writes the kernels of `keys` as an archive: the same kernels give the same bytes. Every checksum
/// of a kernel is checked before it is written; what fails is left out and reported, and of nothing
/// but such no archive is written at all. Changes nothing in the cache, not even times of last use.
/// Holds one kernel twice in memory. Throws what `write` throws: then the archive is cut short.
[[nodiscard]] ArchiveExport export_cache(const CacheStore& store, std::vector<std::string> keys,
                                         const WriteBytes& write);

/// What an import accepts.
struct ArchiveLimits {
  std::int64_t archive_bytes = std::int64_t{4} << 30;  ///< the whole archive
  std::int64_t entry_bytes = std::int64_t{1} << 30;    ///< the files of one kernel
  std::int64_t record_bytes = std::int64_t{16} << 20;  ///< a record.json, parsed as a whole
  std::size_t entry_files = 1000;                      ///< of one kernel, record.json included
};

/// Takes a kernel: its record and the files that the record lists, all of which match their
/// checksums. The bytes live as long as the call. May throw.
using TakeKernel = std::function<void(const CacheRecord&, std::span<const CacheFile>)>;

/// Gives the kernels of an archive, one by one, each as soon as all of it was read. The first thing
/// wrong, and any Error that `take` throws, ends it with an IoError of one line: `name`, the
/// member, the reason. Memory: at most about twice the largest kernel, which `limits` bound.
/// Checksums tell damage, not malice.
void read_archive(const std::string& name, const ReadBytes& read, const ArchiveLimits& limits,
                  const TakeKernel& take);

struct ArchiveImport {
  std::int64_t imported = 0;
  std::int64_t already_there = 0;   ///< the cache had them; its own stay
  std::int64_t other_versions = 0;  ///< not for this version of spjit: skipped
  std::int64_t bytes = 0;           ///< of the files imported
};

/// Publishes the kernels of an archive, each whole or not at all. An IoError also says how many
/// were imported before it: these stay. **The kernels of an archive run as code of whoever uses the
/// cache.**
[[nodiscard]] ArchiveImport import_cache(const CacheStore& store, const std::string& name,
                                         const ReadBytes& read, const ArchiveLimits& limits);

}  // namespace spjit::cli

#pragma once

/// @file
/// The first member of an archive of a cache: what else is in it. docs/cache-format.md has the
/// format.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cache/cache_record.hpp"

namespace spjit::cli {

/// The layout of archives. Those of another one are refused.
inline constexpr std::int64_t k_archive_format = 1;

inline constexpr std::string_view k_manifest_name = "spjit-cache.json";

/// What a manifest or a record.json of an archive may have: both are parsed as a whole.
inline constexpr std::int64_t k_largest_json_bytes = std::int64_t{16} << 20;

/// What an import accepts.
struct ArchiveLimits {
  std::int64_t archive_bytes = std::int64_t{4} << 30;  ///< the whole archive
  std::int64_t entry_bytes = std::int64_t{1} << 30;    ///< the files of one kernel
};

/// One kernel in an archive.
struct ArchiveEntry {
  std::string key;
  std::string spjit_version;           ///< of the program that compiled it
  CacheFileRecord record;              ///< of its record.json
  std::vector<CacheFileRecord> files;  ///< the others, as record.json has them
};

struct ArchiveManifest {
  std::string spjit_version;  ///< of the program that wrote the archive
  std::vector<ArchiveEntry> entries;
};

[[nodiscard]] std::string write_manifest(const ArchiveManifest& manifest);

/// Throws CacheError with the reason for what is no manifest, is of another format, names a kernel
/// or a file twice, or promises more than the limits allow.
[[nodiscard]] ArchiveManifest parse_manifest(std::string_view text, const ArchiveLimits& limits);

}  // namespace spjit::cli

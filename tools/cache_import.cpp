#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "archive_reader.hpp"
#include "cache_archive.hpp"
#include "spjit/error.hpp"

namespace spjit::cli {

ArchiveImport import_cache(const CacheStore& store, const std::string& name, ReadBytes read,
                           const ArchiveLimits& limits) {
  ArchiveImport result;
  const auto publish = [&](const CacheRecord& record, std::span<const CacheFile> files) {
    if (record.spjit_version != store.spjit_version()) {
      ++result.other_versions;
    } else if (store.publish(record.key, files, record.kernel) == PublishResult::published) {
      ++result.imported;
      for (const CacheFileRecord& file : record.files) result.bytes += file.bytes;
    } else {
      ++result.already_there;
    }
  };
  try {
    read_archive(name, std::move(read), limits, publish);
  } catch (const IoError& error) {
    throw IoError(
        fmt::format("{}; {} kernels were imported before that", error.what(), result.imported));
  }
  return result;
}

ArchiveImport import_cache(const CacheStore& store, const std::string& name,
                           std::span<const std::byte> bytes, const ArchiveLimits& limits) {
  return import_cache(store, name, bytes_in_memory(bytes), limits);
}

}  // namespace spjit::cli

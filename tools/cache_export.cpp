#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/hash.hpp"
#include "cache_archive.hpp"
#include "spjit/error.hpp"

namespace spjit::cli {
namespace {

/// An entry as an archive has it. Throws CacheError.
struct VerifiedEntry {
  CacheEntry entry;
  std::string record;  // record.json
  ArchiveEntry listed;
};

VerifiedEntry read_entry(const CacheStore& store, const std::string& key) {
  VerifiedEntry read{.entry = store.read(key), .record = {}, .listed = {}};
  read.record = write_cache_record(read.entry.record);
  const auto bytes = static_cast<std::int64_t>(read.record.size());
  if (bytes > k_largest_json_bytes) {
    throw CacheError(fmt::format("{} has {} bytes, an archive takes at most {}", k_record_file_name,
                                 bytes, k_largest_json_bytes));
  }
  read.listed = {.key = key,
                 .spjit_version = read.entry.record.spjit_version,
                 .record = {.name = std::string(k_record_file_name),
                            .bytes = bytes,
                            .checksum = checksum_hex(std::as_bytes(std::span(read.record)))},
                 .files = read.entry.record.files};
  return read;
}

void add_entry(TarWriter& tar, const CacheStore& store, const ArchiveEntry& listed) {
  const VerifiedEntry read = read_entry(store, listed.key);
  // The manifest, which comes first, says what it was a moment ago.
  if (read.listed.record != listed.record) {
    throw CacheError(fmt::format("cache entry {} changed while it was being exported; export again",
                                 listed.key));
  }
  for (const CacheFileRecord& file : listed.files) {
    tar.add(fmt::format("{}/{}", listed.key, file.name), read.entry.file(file.name));
  }
  tar.add(fmt::format("{}/{}", listed.key, k_record_file_name),
          std::as_bytes(std::span(read.record)));
}

}  // namespace

ArchiveExport export_cache(const CacheStore& store, std::vector<std::string> keys,
                           const WriteBytes& write) {
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  ArchiveExport result;
  ArchiveManifest manifest{.spjit_version = store.spjit_version(), .entries = {}};
  for (const std::string& key : keys) {
    try {
      manifest.entries.push_back(read_entry(store, key).listed);
    } catch (const CacheError& error) {
      result.left_out.push_back({.key = key, .problem = error.what()});
    }
  }
  if (manifest.entries.empty() && !result.left_out.empty()) return result;
  const std::string text = write_manifest(manifest);
  if (static_cast<std::int64_t>(text.size()) > k_largest_json_bytes) {
    throw CacheError(
        fmt::format("{} kernels need a list of {} bytes, over the {} that an archive "
                    "may have; export fewer at once",
                    manifest.entries.size(), text.size(), k_largest_json_bytes));
  }
  TarWriter tar([&](std::span<const std::byte> bytes) {
    write(bytes);
    result.bytes += static_cast<std::int64_t>(bytes.size());
  });
  tar.add(std::string(k_manifest_name), std::as_bytes(std::span(text)));
  for (const ArchiveEntry& entry : manifest.entries) add_entry(tar, store, entry);
  tar.finish();
  result.entries = static_cast<std::int64_t>(manifest.entries.size());
  return result;
}

}  // namespace spjit::cli

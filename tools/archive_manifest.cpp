#include "archive_manifest.hpp"

#include <fmt/format.h>

#include <limits>
#include <set>

#include "base/json_text.hpp"
#include "spjit/error.hpp"

namespace spjit::cli {
namespace {

using nlohmann::json;

constexpr std::int64_t k_most_number = std::numeric_limits<std::int64_t>::max();

void require_format(const json& value, const char* member, std::int64_t expected) {
  const std::int64_t format = json_integer(value.at(member), member, 0, k_most_number);
  if (format != expected) {
    throw CacheError(fmt::format("has {} {}, expected {}: written by another version of spjit",
                                 member, format, expected));
  }
}

CacheFileRecord parse_record_file(const json& value) {
  CacheFileRecord record{.name = std::string(k_record_file_name),
                         .bytes = json_integer(value.at("bytes"), "bytes", 0, k_most_number),
                         .checksum = value.at("checksum").get<std::string>()};
  if (record.bytes > k_largest_json_bytes) {
    throw CacheError(fmt::format("lists a {} of {} bytes, expected at most {}", k_record_file_name,
                                 record.bytes, k_largest_json_bytes));
  }
  return record;
}

/// Never overflows: what goes over the limit ends it.
std::int64_t bytes_of(const ArchiveEntry& entry, std::int64_t limit) {
  std::int64_t bytes = 0;
  const auto add = [&](const CacheFileRecord& file) {
    if (file.bytes > limit - bytes) {
      throw CacheError(fmt::format("lists '{}' of {} bytes for kernel {}, which may have {} in all",
                                   file.name, file.bytes, entry.key, limit));
    }
    bytes += file.bytes;
  };
  add(entry.record);
  for (const CacheFileRecord& file : entry.files) add(file);
  return bytes;
}

ArchiveEntry parse_entry(const json& value) {
  ArchiveEntry entry{.key = value.at("key").get<std::string>(),
                     .spjit_version = value.at("spjit").get<std::string>(),
                     .record = parse_record_file(value.at("record")),
                     .files = parse_cache_files(value.at("files"))};
  if (!is_cache_key(entry.key)) {
    throw CacheError(
        fmt::format("lists key '{}', expected 64 lowercase hexadecimal digits", entry.key));
  }
  return entry;
}

ArchiveManifest parse_body(const json& value, const ArchiveLimits& limits) {
  require_format(value, "format", k_archive_format);
  require_format(value, "cache_format", k_cache_format);
  ArchiveManifest manifest{.spjit_version = value.at("spjit").get<std::string>(), .entries = {}};
  std::set<std::string> keys;
  std::int64_t bytes = 0;
  for (const json& listed : value.at("entries")) {
    ArchiveEntry entry = parse_entry(listed);
    if (!keys.insert(entry.key).second) {
      throw CacheError(fmt::format("lists key {} twice", entry.key));
    }
    const std::int64_t entry_bytes = bytes_of(entry, limits.entry_bytes);
    if (entry_bytes > limits.archive_bytes - bytes) {
      throw CacheError(
          fmt::format("lists over {} bytes in all, the most accepted", limits.archive_bytes));
    }
    bytes += entry_bytes;
    manifest.entries.push_back(std::move(entry));
  }
  return manifest;
}

}  // namespace

std::string write_manifest(const ArchiveManifest& manifest) {
  json entries = json::array();
  for (const ArchiveEntry& entry : manifest.entries) {
    entries.push_back(
        {{"key", entry.key},
         {"spjit", entry.spjit_version},
         {"record", {{"bytes", entry.record.bytes}, {"checksum", entry.record.checksum}}},
         {"files", write_cache_files(entry.files)}});
  }
  const json body = {{"format", k_archive_format},
                     {"cache_format", k_cache_format},
                     {"spjit", manifest.spjit_version},
                     {"entries", std::move(entries)}};
  return body.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

ArchiveManifest parse_manifest(std::string_view text, const ArchiveLimits& limits) {
  try {
    return parse_body(parse_json(text), limits);
  } catch (const CacheError&) {
    throw;
  } catch (const Error& error) {
    throw CacheError(fmt::format("is no manifest: {}", error.what()));
  } catch (const json::exception& error) {
    throw CacheError(fmt::format("is no manifest: {}", error.what()));
  }
}

}  // namespace spjit::cli

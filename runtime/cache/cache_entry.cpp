#include "runtime/cache/cache_entry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "base/safe_path.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

constexpr std::int64_t k_largest_file_bytes = std::int64_t{1} << 32;
constexpr std::int64_t k_largest_record_bytes = std::int64_t{64} << 20;

void require_match(const CacheRecord& record, const CacheExpectation& expected) {
  if (record.key != expected.key) {
    throw CacheError(fmt::format("record.json is of key {}", record.key));
  }
  if (expected.spjit_version && record.spjit_version != *expected.spjit_version) {
    throw CacheError(fmt::format("written by spjit {}, this is spjit {}", record.spjit_version,
                                 *expected.spjit_version));
  }
}

void require_size(const CacheFileRecord& expected, std::int64_t bytes) {
  if (bytes == expected.bytes) return;
  throw CacheError(
      fmt::format("'{}' has {} bytes, expected {}", expected.name, bytes, expected.bytes));
}

FileDescriptor open_trusted(const FileDescriptor& directory, std::string_view name,
                            const CacheExpectation& expected) {
  FileDescriptor file = open_file(directory, name);
  if (!expected.any_owner) require_trusted(file, name);
  return file;
}

CacheRecord read_record(const FileDescriptor& file) {
  const FileBytes text = read_file(file, k_record_file_name, k_largest_record_bytes);
  return parse_cache_record({reinterpret_cast<const char*>(text.data.get()), text.size});
}

FileBytes content_of(const FileDescriptor& file, const CacheFileRecord& expected, bool map) {
  if (map && expected.bytes <= k_largest_file_bytes) {
    if (auto mapped = map_file(file, static_cast<std::size_t>(expected.bytes))) {
      return std::move(*mapped);
    }
  }
  return read_file(file, expected.name, k_largest_file_bytes);
}

/// Of a mapped file the very pages are verified that are used later.
FileBytes read_verified(const FileDescriptor& file, const CacheFileRecord& expected, bool map) {
  FileBytes content = content_of(file, expected, map);
  require_size(expected, static_cast<std::int64_t>(content.size));
  if (checksum_hex(content.bytes()) != expected.checksum) {
    throw CacheError(fmt::format("'{}' does not match its checksum", expected.name));
  }
  return content;
}

}  // namespace

std::span<const std::byte> CacheEntry::file(std::string_view name) const {
  const auto found = files.find(name);
  if (found == files.end()) {
    throw CacheError(fmt::format("cache entry {} has no file '{}' among the {} read", record.key,
                                 name, files.size()));
  }
  return found->second.bytes();
}

CacheEntry read_cache_entry(const FileDescriptor& directory, const CacheExpectation& expected) {
  if (!expected.any_owner) require_trusted(directory, expected.key);
  CacheEntry entry;
  entry.record = read_record(open_trusted(directory, k_record_file_name, expected));
  require_match(entry.record, expected);
  std::vector<std::pair<const CacheFileRecord*, FileDescriptor>> opened;
  for (const CacheFileRecord& file : entry.record.files) {
    FileDescriptor descriptor = open_trusted(directory, file.name, expected);
    require_size(file, file_size(descriptor, file.name));
    if (expected.wanted.empty() || std::ranges::count(expected.wanted, file.name) != 0) {
      opened.emplace_back(&file, std::move(descriptor));
    }
  }
  for (const auto& [file, descriptor] : opened) {
    entry.files.emplace(file->name, read_verified(descriptor, *file, expected.map));
  }
  return entry;
}

CacheRecord read_cache_record(const FileDescriptor& directory) {
  return read_record(open_file(directory, k_record_file_name));
}

}  // namespace spjit

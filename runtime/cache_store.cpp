#include "runtime/cache_store.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <set>

#include "runtime/cache_directory.hpp"
#include "runtime/hash.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

namespace fs = std::filesystem;
using std::chrono::system_clock;

constexpr std::string_view k_tag_name = "CACHEDIR.TAG";
// The first line is prescribed by the Cache Directory Tagging Specification (backup programs look
// for it); the second one says whose cache it is.
constexpr std::string_view k_tag_text =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This directory is an spjit cache: `spjit cache clear` empties it.\n"
    "# See https://bford.info/cachedir/ for this file.\n";
constexpr std::string_view k_damaged_name = "damaged";
constexpr auto k_keep_temporary = std::chrono::hours(1);
constexpr auto k_keep_damaged = std::chrono::hours(24 * 7);
constexpr std::int64_t k_largest_file_bytes = std::int64_t{1} << 32;
constexpr std::int64_t k_largest_record_bytes = std::int64_t{64} << 20;

void require_key(std::string_view key) {
  if (!is_cache_key(key)) {
    throw InvalidArgument(
        fmt::format("cache key '{}': expected 64 lowercase hexadecimal digits", key));
  }
}

void require_files(std::span<const CacheFile> files) {
  std::set<std::string_view> names;
  for (const CacheFile& file : files) {
    if (!is_cache_file_name(file.name)) {
      throw InvalidArgument(fmt::format(
          "cache file name '{}': expected 1 to 100 of A-Z a-z 0-9 . _ -, no leading dot, not "
          "'record.json'",
          file.name));
    }
    if (!names.insert(file.name).second) {
      throw InvalidArgument(fmt::format("cache file '{}' given twice", file.name));
    }
  }
}

std::string read_text(const fs::path& directory, std::string_view name) {
  const FileDescriptor fd = open_directory(directory);
  if (!fd) {
    throw CacheError(fmt::format("cannot open '{}': {}", directory.native(), std::strerror(errno)));
  }
  const FileBytes bytes = read_file(open_file(fd, name), name, k_largest_record_bytes);
  return {reinterpret_cast<const char*>(bytes.data.get()), bytes.size};
}

CacheRecord make_record(std::string_view key, const std::string& spjit_version,
                        std::span<const CacheFile> files, const nlohmann::json& kernel) {
  CacheRecord record{
      .spjit_version = spjit_version,
      .key = std::string(key),
      .created = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                             fmt::gmtime(system_clock::to_time_t(system_clock::now()))),
      .files = {},
      .kernel = kernel};
  for (const CacheFile& file : files) {
    record.files.push_back({.name = file.name,
                            .bytes = static_cast<std::int64_t>(file.bytes.size()),
                            .checksum = checksum_hex(file.bytes)});
  }
  return record;
}

void require_match(const CacheRecord& record, std::string_view key,
                   const std::string& spjit_version) {
  if (record.key != key) {
    throw CacheError(fmt::format("record.json is of key {}", record.key));
  }
  if (record.spjit_version != spjit_version) {
    throw CacheError(
        fmt::format("written by spjit {}, this is spjit {}", record.spjit_version, spjit_version));
  }
}

FileBytes read_verified(const FileDescriptor& directory, const CacheFileRecord& expected) {
  FileBytes content =
      read_file(open_file(directory, expected.name), expected.name, k_largest_file_bytes);
  if (static_cast<std::int64_t>(content.size) != expected.bytes) {
    throw CacheError(
        fmt::format("'{}' has {} bytes, expected {}", expected.name, content.size, expected.bytes));
  }
  if (checksum_hex(content.bytes()) != expected.checksum) {
    throw CacheError(fmt::format("'{}' does not match its checksum", expected.name));
  }
  return content;
}

void require_size(const FileDescriptor& directory, const CacheFileRecord& expected) {
  const std::int64_t bytes = file_size(open_file(directory, expected.name), expected.name);
  if (bytes != expected.bytes) {
    throw CacheError(
        fmt::format("'{}' has {} bytes, expected {}", expected.name, bytes, expected.bytes));
  }
}

/// Moves the directory behind `directory` from `entry` out of the way. If another process did so
/// already and published a new one under the name, that one is left alone.
void set_aside(const fs::path& root, const fs::path& entry, const FileDescriptor& directory) {
  struct stat opened {};
  struct stat present {};
  if (::fstat(directory.get(), &opened) != 0 || ::lstat(entry.c_str(), &present) != 0) return;
  if (opened.st_ino != present.st_ino || opened.st_dev != present.st_dev) return;
  const fs::path damaged = root / k_damaged_name;
  const std::string name = fmt::format("{}-{}", entry.filename().native(), random_hex());
  std::error_code ignored;
  try {
    create_private_directories(damaged);
  } catch (const CacheError&) {
    return;  // A read-only cache keeps what it has.
  }
  // The time of setting aside decides when sweep() removes it.
  fs::last_write_time(entry, fs::file_time_type::clock::now(), ignored);
  fs::rename(entry, damaged / name, ignored);
}

CacheLookup miss(std::string_view key, std::string_view reason) {
  return {.entry = std::nullopt, .miss_reason = fmt::format("cache entry {}: {}", key, reason)};
}

CacheClearResult remove_directory(const fs::path& path) {
  const CacheClearResult result{.entries = 1, .bytes = bytes_of_files(path)};
  std::error_code error;
  fs::remove_all(path, error);
  if (error) {
    throw CacheError(fmt::format("cannot remove '{}': {}; check its permissions", path.native(),
                                 error.message()));
  }
  return result;
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

CacheStore::CacheStore(fs::path root, std::string spjit_version)
    : root_(std::move(root)), spjit_version_(std::move(spjit_version)) {
  if (root_.empty()) throw CacheError("cache directory '': expected a path");
  std::error_code error;
  const fs::file_status status = fs::status(root_, error);
  if (status.type() == fs::file_type::not_found) return;
  if (status.type() != fs::file_type::directory) {
    throw CacheError(fmt::format("cache directory '{}' is no directory{}; choose another one",
                                 root_.native(), error ? ": " + error.message() : ""));
  }
  if (is_cache()) {
    sweep();
    return;
  }
  const auto names = children(root_);
  const bool empty = std::ranges::all_of(
      names, [](const fs::path& path) { return path.filename().native().starts_with(k_tag_name); });
  // Asked again: another process may have made it a cache since. The tag (at first under a longer
  // name) comes before all else.
  if (!empty && !is_cache()) {
    throw CacheError(fmt::format(
        "'{}' holds files, but no {} of spjit: it is not a cache; choose an empty directory",
        root_.native(), k_tag_name));
  }
}

fs::path CacheStore::entry_path(std::string_view key) const {
  return root_ / key.substr(0, 2) / key;
}

bool CacheStore::is_cache() const {
  try {
    return read_text(root_, k_tag_name) == k_tag_text;
  } catch (const CacheError&) {
    return false;
  }
}

void CacheStore::create_root() const {
  if (is_cache()) return;
  create_private_directories(root_);
  // By rename, so that no process ever sees half a tag.
  const fs::path tag = root_ / k_tag_name;
  const fs::path unfinished = fmt::format("{}.{}", tag.native(), random_hex());
  std::error_code error;
  try {
    sync_and_close(write_new_file(unfinished, std::as_bytes(std::span(k_tag_text))), unfinished);
    fs::rename(unfinished, tag);
  } catch (const fs::filesystem_error& failure) {
    fs::remove(unfinished, error);
    throw CacheError(fmt::format("cannot create '{}': {}", tag.native(), failure.what()));
  } catch (const CacheError&) {
    fs::remove(unfinished, error);
    throw;
  }
}

void CacheStore::sweep() const {
  remove_older(root_ / k_cache_temporary_name, k_keep_temporary);
  remove_older(root_ / k_damaged_name, k_keep_damaged);
}

CacheLookup CacheStore::lookup(std::string_view key,
                               std::span<const std::string_view> wanted) const {
  require_key(key);
  const fs::path path = entry_path(key);
  const FileDescriptor directory = open_directory(path);
  if (!directory) {
    if (errno == ENOENT) return {};
    return miss(key, std::strerror(errno));
  }
  try {
    const FileDescriptor record_file = open_file(directory, k_record_file_name);
    const FileBytes text = read_file(record_file, k_record_file_name, k_largest_record_bytes);
    CacheEntry entry;
    entry.record = parse_cache_record({reinterpret_cast<const char*>(text.data.get()), text.size});
    require_match(entry.record, key, spjit_version_);
    for (const CacheFileRecord& file : entry.record.files) {
      if (wanted.empty() || std::ranges::count(wanted, file.name) != 0) {
        entry.files.emplace(file.name, read_verified(directory, file));
      } else {
        require_size(directory, file);
      }
    }
    // The time of last use; a cache that may only be read does without.
    static_cast<void>(::futimens(record_file.get(), nullptr));
    return {.entry = std::move(entry), .miss_reason = {}};
  } catch (const FileError& error) {
    // Running out of descriptors says nothing about the entry.
    if (!error.transient()) set_aside(root_, path, directory);
    return miss(key, error.what());
  } catch (const CacheError& error) {
    set_aside(root_, path, directory);
    return miss(key, error.what());
  } catch (const std::bad_alloc& error) {
    return miss(key, error.what());
  }
}

PublishResult CacheStore::publish(std::string_view key, std::span<const CacheFile> files,
                                  const nlohmann::json& kernel, const CompileCancel& cancel) const {
  require_key(key);
  require_files(files);
  const CacheRecord record = make_record(key, spjit_version_, files, kernel);
  create_root();
  TemporaryEntry temporary(root_);
  for (const CacheFile& file : files) {
    cancel.check();
    temporary.add(file.name, file.bytes);
  }
  // Last: a temporary directory with a record is complete.
  const std::string text = write_cache_record(record);
  temporary.add(k_record_file_name, std::as_bytes(std::span(text)));
  cancel.check();
  return temporary.commit(entry_path(key)) ? PublishResult::published
                                           : PublishResult::already_there;
}

std::vector<CacheListing> CacheStore::list() const {
  if (!open_directory(root_) && errno != ENOENT) {
    throw CacheError(fmt::format("cannot read the cache directory '{}': {}", root_.native(),
                                 std::strerror(errno)));
  }
  std::vector<CacheListing> listings;
  for (const fs::path& path : entry_directories(root_)) {
    CacheListing listing;
    listing.key = path.filename();
    listing.bytes = bytes_of_files(path);
    listing.last_used = modified(path / k_record_file_name).value_or(system_clock::time_point{});
    try {
      listing.record = parse_cache_record(read_text(path, k_record_file_name));
    } catch (const CacheError& error) {
      listing.problem = error.what();
    }
    listings.push_back(std::move(listing));
  }
  return listings;
}

bool CacheStore::remove(std::string_view key) const {
  require_key(key);
  const fs::path path = entry_path(key);
  if (!is_real_directory(path)) return false;
  // Away in one step first, so that nobody sees half an entry.
  const TemporaryEntry grave(root_);
  if (std::rename(path.c_str(), grave.path().c_str()) == 0) return true;
  if (errno == ENOENT) return false;
  throw CacheError(fmt::format("cannot remove '{}': {}; check its permissions", path.native(),
                               std::strerror(errno)));
}

CacheClearResult CacheStore::clear() const {
  std::error_code error;
  if (fs::status(root_, error).type() == fs::file_type::not_found) return {};
  if (!is_cache()) {
    throw CacheError(
        fmt::format("will not clear '{}': it has no {} of spjit", root_.native(), k_tag_name));
  }
  CacheClearResult total;
  const auto remove_all_of = [&](const std::vector<fs::path>& paths) {
    for (const fs::path& path : paths) {
      const CacheClearResult removed = remove_directory(path);
      total.entries += removed.entries;
      total.bytes += removed.bytes;
    }
  };
  const auto entries = entry_directories(root_);
  remove_all_of(entries);
  for (const fs::path& entry : entries) fs::remove(entry.parent_path(), error);  // if empty
  remove_all_of(children(root_ / k_cache_temporary_name));
  remove_all_of(children(root_ / k_damaged_name));
  return total;
}

}  // namespace spjit

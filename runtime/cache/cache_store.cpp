#include "runtime/cache/cache_store.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <random>
#include <set>
#include <utility>

#include "base/hash.hpp"
#include "base/safe_path.hpp"
#include "runtime/cache/cache_directory.hpp"
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
constexpr auto k_keep_temporary = std::chrono::hours(1);
constexpr auto k_keep_damaged = std::chrono::hours(24 * 7);
// The size of a cache is looked at once each so many parts of its limit are published, on average.
constexpr std::int64_t k_limit_parts = 32;

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

/// Whether it is time to look at the size of a cache in which so many bytes were just published: by
/// chance, in proportion to them, so that processes need not know of each other.
bool limit_is_due(std::int64_t published_bytes, std::int64_t limit_bytes) {
  const std::int64_t part = std::max<std::int64_t>(limit_bytes / k_limit_parts, 1);
  if (published_bytes >= part) return true;
  const double share = static_cast<double>(published_bytes) / static_cast<double>(part);
  std::random_device device;
  return static_cast<double>(device()) < share * 0x1p32;
}

std::int64_t total_bytes(std::span<const CacheFile> files) {
  std::size_t bytes = 0;
  for (const CacheFile& file : files) bytes += file.bytes.size();
  return static_cast<std::int64_t>(bytes);
}

/// What a process leaves that is killed in create_root().
bool is_unfinished_tag(const fs::path& path) {
  constexpr std::size_t k_random_digits = 16;
  const std::string name = path.filename();
  return name.size() == k_tag_name.size() + 1 + k_random_digits && name.starts_with(k_tag_name) &&
         name[k_tag_name.size()] == '.' &&
         name.find_first_not_of("0123456789abcdef", k_tag_name.size() + 1) == std::string::npos;
}

}  // namespace

CacheRecord make_cache_record(std::string_view key, const std::string& spjit_version,
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

CacheStore::CacheStore(fs::path root, std::string spjit_version, const CacheStoreOptions& options)
    : root_(std::move(root)),
      spjit_version_(std::move(spjit_version)),
      options_(options),
      reports_(std::make_shared<CacheReports>()) {
  if (root_.empty()) throw CacheError("cache directory '': expected a path");
  if (root_.native().find('\0') != std::string::npos) {
    throw InvalidArgument(
        fmt::format("cache directory '{}': it has a zero byte in it", root_.native()));
  }
  if (options_.size_limit_bytes < 0) {
    throw InvalidArgument(
        fmt::format("the cache's size limit is {} bytes: expected 0 (none) or more",
                    options_.size_limit_bytes));
  }
  const FileDescriptor directory = open_directory(root_);
  if (!directory) {
    const int error = errno;
    if (error == ENOENT && !options_.read_only) return;
    throw CacheError(fmt::format("cannot open the cache directory '{}': {}; choose another one",
                                 root_.native(), std::strerror(error)));
  }
  if (!options_.allow_unsafe) require_safe_directory(directory, root_);
  if (is_cache()) {
    if (!options_.read_only) sweep();
    return;
  }
  if (options_.read_only) {
    throw CacheError(fmt::format("'{}' has no {} of spjit: a read-only layer has to be a cache",
                                 root_.native(), k_tag_name));
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
  require_key(key);
  return root_ / key.substr(0, 2) / key;
}

bool CacheStore::is_cache() const {
  constexpr std::int64_t k_largest_tag_bytes = 4096;
  const FileDescriptor directory = open_directory(root_);
  if (!directory) return false;
  try {
    const FileBytes text =
        read_file(open_file(directory, k_tag_name), k_tag_name, k_largest_tag_bytes);
    return std::ranges::equal(text.bytes(), std::as_bytes(std::span(k_tag_text)));
  } catch (const CacheError&) {
    return false;
  }
}

void CacheStore::require_writable(std::string_view action) const {
  if (!options_.read_only) return;
  throw CacheError(fmt::format("cannot {} '{}': it is a read-only layer", action, root_.native()));
}

void CacheStore::create_root() const {
  create_private_directories(root_);
  if (!options_.allow_unsafe) {
    // Again: it may have been made, by anyone, after the cache was opened.
    const FileDescriptor directory = open_directory(root_);
    if (directory) require_safe_directory(directory, root_);
  }
  if (is_cache()) return;
  // By rename, so that no process ever sees half a tag.
  const fs::path tag = root_ / k_tag_name;
  const fs::path unfinished = fmt::format("{}.{}", tag.native(), random_hex());
  std::error_code error;
  try {
    sync_and_close(write_new_file(unfinished, std::as_bytes(std::span(k_tag_text))), unfinished);
    fs::rename(unfinished, tag);
    // On the disk before anything else is here: a directory that holds files and no tag is refused.
    sync_directory(root_);
  } catch (const fs::filesystem_error& failure) {
    fs::remove(unfinished, error);
    throw CacheError(fmt::format("cannot create '{}': {}", tag.native(), failure.what()));
  } catch (const CacheError&) {
    fs::remove(unfinished, error);
    throw;
  }
}

bool CacheStore::is_being_made() const {
  return std::ranges::all_of(children(root_, Unreadable::fails), is_unfinished_tag);
}

void CacheStore::sweep() const {
  std::vector<fs::path> unfinished = children(root_ / k_cache_temporary_name);
  for (const fs::path& path : children(root_)) {
    if (is_unfinished_tag(path)) unfinished.push_back(path);
  }
  remove_older(root_, unfinished, k_keep_temporary);
  remove_older(root_, children(root_ / k_cache_damaged_name), k_keep_damaged);
}

CacheLookup CacheStore::lookup(std::string_view key,
                               std::span<const std::string_view> wanted) const {
  const FileDescriptor directory = open_real_directory(entry_path(key));
  if (!directory) return unopened(key, errno);
  const FileIdentity identity = identity_of(directory).value_or(FileIdentity{});
  std::string problem;
  try {
    CacheEntry entry = read_cache_entry(directory, {.key = key,
                                                    .wanted = wanted,
                                                    .spjit_version = spjit_version_,
                                                    .any_owner = options_.allow_unsafe,
                                                    .map = !options_.allow_unsafe});
    entry.root = root_;
    entry.directory = identity;
    if (!options_.read_only) {
      // The time of last use; a cache that may only be read does without.
      const std::string record(k_record_file_name);
      static_cast<void>(::utimensat(directory.get(), record.c_str(), nullptr, AT_SYMLINK_NOFOLLOW));
    }
    return {.entry = std::move(entry), .miss_reason = {}};
  } catch (const FileError& error) {
    if (error.stale()) return {};
    // Running out of descriptors says nothing about the entry.
    if (error.transient()) {
      return {.entry = std::nullopt, .miss_reason = describe(key, error.what())};
    }
    problem = error.what();
  } catch (const CacheError& error) {
    problem = error.what();
  } catch (const std::bad_alloc& error) {
    return {.entry = std::nullopt, .miss_reason = describe(key, error.what())};
  }
  return {.entry = std::nullopt, .miss_reason = discard(key, identity, problem)};
}

CacheLookup CacheStore::unopened(std::string_view key, int error) const {
  if (error == ENOENT || error == ESTALE) return {};
  const FileError problem(fmt::format("cannot open it: {}", std::strerror(error)), error);
  if (problem.transient()) {
    return {.entry = std::nullopt, .miss_reason = describe(key, problem.what())};
  }
  // Something else than a directory, or one that must not be read, is in the way.
  const std::optional<FileIdentity> identity = identity_of(entry_path(key));
  if (identity) {
    return {.entry = std::nullopt, .miss_reason = discard(key, *identity, problem.what())};
  }
  return {.entry = std::nullopt,
          .miss_reason = reports_->first(key) ? describe(key, problem.what()) : ""};
}

std::string CacheStore::reject(const CacheEntry& entry, std::string_view reason) const {
  return discard(entry.record.key, entry.directory, reason);
}

std::string CacheStore::discard(std::string_view key, const FileIdentity& identity,
                                std::string_view reason) const {
  const fs::path path = entry_path(key);
  SetAside outcome = SetAside::stuck;
  if (!options_.read_only) {
    outcome = set_aside(root_, path, identity);
  } else if (identity_of(path) != identity) {
    outcome = SetAside::gone;
  }
  const bool reported =
      outcome == SetAside::moved || (outcome == SetAside::stuck && reports_->first(key));
  return reported ? describe(key, reason) : std::string();
}

std::string CacheStore::describe(std::string_view key, std::string_view reason) const {
  return fmt::format("cache entry {} in '{}': {}", key, root_.native(), reason);
}

TemporaryEntry CacheStore::make_temporary() const {
  require_writable("write to");
  create_root();
  return TemporaryEntry(root_);
}

PublishResult CacheStore::publish(std::string_view key, std::span<const CacheFile> files,
                                  const nlohmann::json& kernel, const Cancellation& cancel,
                                  EntrySync sync) const {
  require_key(key);
  require_files(files);
  require_writable("publish in");
  CacheRecord record = make_cache_record(key, spjit_version_, files, kernel);
  create_root();
  TemporaryEntry temporary(root_);
  for (const CacheFile& file : files) {
    cancel.check();
    temporary.add(file.name, file.bytes);
  }
  // Last: a temporary directory with a record is complete.
  const std::string text = write_cache_record(std::move(record));
  temporary.add(k_record_file_name, std::as_bytes(std::span(text)));
  cancel.check();
  if (!temporary.commit(entry_path(key), sync)) return PublishResult::already_there;
  const std::int64_t bytes = total_bytes(files) + static_cast<std::int64_t>(text.size());
  if (options_.size_limit_bytes > 0 && limit_is_due(bytes, options_.size_limit_bytes)) {
    keep_to_limit(key);
  }
  return PublishResult::published;
}

}  // namespace spjit

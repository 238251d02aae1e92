// CacheStore: what is in the directory, what is damaged, and out with it.

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <utility>

#include "runtime/cache/cache_directory.hpp"
#include "runtime/cache/cache_store.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

namespace fs = std::filesystem;
using std::chrono::system_clock;

FileDescriptor open_entry(const fs::path& path) {
  FileDescriptor directory = open_real_directory(path);
  if (directory) return directory;
  const int error = errno;
  throw FileError(fmt::format("cannot open '{}': {}", path.native(), std::strerror(error)), error);
}

/// Whether somebody has removed or replaced what was there.
bool is_gone(const fs::path& path, const FileIdentity& identity) {
  const std::optional<FileIdentity> present = identity_of(path);
  return present ? present != identity : errno == ENOENT;
}

/// Of a directory, which another process may be removing too: what is gone by then is no error.
std::error_code remove_whole(const fs::path& path) {
  constexpr int k_attempts = 100;
  std::error_code error;
  for (int attempt = 0; attempt < k_attempts; ++attempt) {
    fs::remove_all(path, error);
    if (error != std::errc::no_such_file_or_directory) break;
  }
  return error;
}

system_clock::time_point last_used(const fs::path& entry) {
  return modified(entry / k_record_file_name).value_or(system_clock::time_point{});
}

CacheListing listing_of(const fs::path& entry) {
  CacheListing listing;
  listing.key = entry.filename();
  listing.bytes = bytes_of_files(entry);
  listing.last_used = last_used(entry);
  return listing;
}

void require_readable(const fs::path& root) {
  if (!open_directory(root) && errno != ENOENT) {
    throw CacheError(fmt::format("cannot read the cache directory '{}': {}", root.native(),
                                 std::strerror(errno)));
  }
}

/// Removes from a cache; keeps the first failure and goes on.
class Cleaner {
 public:
  struct Resident {
    fs::path path;
    std::int64_t bytes = 0;
    system_clock::duration age = {};  ///< since it was last used
  };

  /// Looks at everything there is. The entry `kept_key` is never removed; a dry run removes
  /// nothing.
  Cleaner(const fs::path& root, std::string_view kept_key, bool dry_run)
      : root_(root), kept_key_(kept_key), dry_run_(dry_run) {
    for (const fs::path& path : entry_directories(root)) {
      entries_.push_back({path, bytes_of_files(path), age_of(path)});
    }
    std::ranges::sort(entries_, [](const Resident& one, const Resident& other) {
      return one.age > other.age || (one.age == other.age && one.path < other.path);
    });
    for (const fs::path& path : children(root / k_cache_damaged_name, Unreadable::fails)) {
      damaged_.push_back({path, bytes_of_files(path)});
    }
    for (const auto* list : {&entries_, &damaged_}) {
      for (const Resident& resident : *list) bytes_ += resident.bytes;
    }
  }

  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] const CacheClearResult& removed() const noexcept { return removed_; }
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }

  void remove_entries(const std::function<bool(const Resident&)>& doomed) {
    std::erase_if(entries_,
                  [&](const Resident& entry) { return doomed(entry) && remove_unused(entry); });
  }

  void remove_damaged(const std::function<bool()>& wanted) {
    std::erase_if(damaged_, [&](const Resident& entry) {
      if (!wanted()) return false;
      if (dry_run_) return count(entry);
      if (const std::error_code error = remove_whole(entry.path)) {
        return fail(fmt::format("cannot remove '{}': {}", entry.path.native(), error.message()));
      }
      return count(entry);
    });
  }

  /// Damaged entries, then the least recently used, until the rest has `most` bytes.
  void shrink_to(std::int64_t most) {
    remove_damaged([&] { return bytes_ > most; });
    remove_entries([&](const Resident&) { return bytes_ > most; });
  }

 private:
  [[nodiscard]] system_clock::duration age_of(const fs::path& entry) const {
    return cache_age(last_used(entry), now_);
  }

  /// Whether it is gone.
  bool remove_unused(const Resident& entry) {
    // Looked at again: it may have been used since it was listed.
    const bool in_use = age_of(entry.path) < k_cache_in_use;
    if (in_use || entry.path.filename().native() == kept_key_) return false;
    if (dry_run_) return count(entry);
    try {
      if (remove_entry(root_, entry.path)) return count(entry);
    } catch (const CacheError& error) {
      return fail(error.what());
    }
    bytes_ -= entry.bytes;  // somebody else has removed it
    return true;
  }

  bool count(const Resident& resident) {
    bytes_ -= resident.bytes;
    removed_.bytes += resident.bytes;
    ++removed_.entries;
    return true;
  }

  bool fail(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
    return false;
  }

  fs::path root_;
  std::string kept_key_;
  bool dry_run_;
  system_clock::time_point now_ = cache_now(root_);
  std::vector<Resident> entries_;  // least recently used first
  std::vector<Resident> damaged_;
  std::int64_t bytes_ = 0;  // of what is left
  CacheClearResult removed_;
  std::string problem_;
};

bool is_of_version(const fs::path& entry, const std::string& spjit_version) {
  try {
    return read_cache_record(open_entry(entry)).spjit_version == spjit_version;
  } catch (const FileError& error) {
    return error.transient() || error.stale();  // it may be
  } catch (const CacheError&) {
    return false;
  }
}

void require_not_negative(const CachePruneOptions& options) {
  if (options.most_bytes && *options.most_bytes < 0) {
    throw InvalidArgument(
        fmt::format("a cache of at most {} bytes: expected 0 or more", *options.most_bytes));
  }
  if (options.unused_for && options.unused_for->count() < 0) {
    throw InvalidArgument(fmt::format("entries unused for {} seconds: expected 0 or more",
                                      options.unused_for->count()));
  }
}

CacheClearResult remove_directory(const fs::path& path) {
  const CacheClearResult result{.entries = 1, .bytes = bytes_of_files(path)};
  if (const std::error_code error = remove_whole(path)) {
    throw CacheError(fmt::format("cannot remove '{}': {}; check its permissions", path.native(),
                                 error.message()));
  }
  return result;
}

}  // namespace

std::vector<CacheListing> CacheStore::list() const {
  require_readable(root_);
  std::vector<CacheListing> listings;
  for (const fs::path& path : entry_directories(root_)) {
    CacheListing listing = listing_of(path);
    try {
      listing.record = read_cache_record(open_entry(path));
    } catch (const CacheError& error) {
      listing.problem = error.what();
    }
    listings.push_back(std::move(listing));
  }
  return listings;
}

std::vector<ListedKernel> CacheStore::kernels() const {
  std::vector<ListedKernel> kernels;
  for (CacheListing& listing : list()) {
    if (!listing.record) continue;
    kernels.push_back({.key = std::move(listing.key),
                       .layer = {},
                       .where = root_.string(),
                       .record = std::move(listing.record->kernel)});
  }
  return kernels;
}

std::optional<CacheListing> CacheStore::damaged_listing(const fs::path& path) const {
  CacheListing listing = listing_of(path);
  const std::optional<FileIdentity> identity = identity_of(path);
  if (!identity && errno == ENOENT) return std::nullopt;
  if (!identity) {
    throw CacheError(fmt::format("cannot inspect '{}': {}", path.native(), std::strerror(errno)));
  }
  try {
    static_cast<void>(read_cache_entry(open_entry(path),
                                       {.key = listing.key, .any_owner = options_.allow_unsafe}));
    return std::nullopt;
  } catch (const OtherCacheFormat&) {
    return std::nullopt;
  } catch (const FileError& error) {
    if (error.stale() && is_gone(path, *identity)) return std::nullopt;
    if (error.transient() || error.stale()) throw;
    listing.problem = error.what();
  } catch (const CacheError& error) {
    listing.problem = error.what();
  }
  // Gone or replaced meanwhile: then nothing is known to be wrong.
  if (is_gone(path, *identity)) return std::nullopt;
  static_cast<void>(discard(listing.key, *identity, listing.problem));
  return listing;
}

CacheVerifyResult CacheStore::verify() const {
  require_readable(root_);
  CacheVerifyResult result;
  for (const fs::path& path : entry_directories(root_)) {
    ++result.entries;
    result.bytes += bytes_of_files(path);
    if (auto damaged = damaged_listing(path)) result.damaged.push_back(std::move(*damaged));
  }
  return result;
}

CacheEntry CacheStore::read(std::string_view key) const {
  return read_cache_entry(open_entry(entry_path(key)),
                          {.key = key, .any_owner = options_.allow_unsafe});
}

bool CacheStore::remove(std::string_view key) const {
  const fs::path path = entry_path(key);
  require_writable("remove from");
  return remove_entry(root_, path);
}

CacheClearResult CacheStore::prune(const CachePruneOptions& options) const {
  require_not_negative(options);
  if (!options.dry_run) require_writable("prune");
  require_readable(root_);
  Cleaner cleaner(root_, {}, options.dry_run);
  if (options.unused_for) {
    cleaner.remove_entries([&](const Cleaner::Resident& entry) {
      // In whole seconds: so many years of nanoseconds overflow.
      return std::chrono::floor<std::chrono::seconds>(entry.age) >= *options.unused_for;
    });
  }
  if (options.other_versions) {
    cleaner.remove_entries(
        [&](const Cleaner::Resident& entry) { return !is_of_version(entry.path, spjit_version_); });
    cleaner.remove_damaged([] { return true; });
  }
  if (options.most_bytes) cleaner.shrink_to(*options.most_bytes);
  if (!cleaner.problem().empty()) throw CacheError(cleaner.problem());
  return cleaner.removed();
}

void CacheStore::keep_to_limit(std::string_view published_key) const {
  try {
    Cleaner cleaner(root_, published_key, false);
    // To a tenth below the limit, so that not every publication has to remove something.
    const std::int64_t limit = options_.size_limit_bytes;
    if (cleaner.bytes() > limit) cleaner.shrink_to(limit - limit / 10);
  } catch (const std::exception&) {
    return;  // Whatever went wrong, the kernel was published; the next one tries again.
  }
}

CacheClearResult CacheStore::clear() const {
  std::error_code error;
  if (fs::status(root_, error).type() == fs::file_type::not_found) return {};
  require_writable("clear");
  if (is_being_made()) return {};
  if (!is_cache()) {
    throw CacheError(
        fmt::format("will not clear '{}': it has no CACHEDIR.TAG of spjit", root_.native()));
  }
  CacheClearResult total;
  const auto entries = entry_directories(root_);
  for (const fs::path& entry : entries) {
    const std::int64_t bytes = bytes_of_files(entry);
    if (!remove_entry(root_, entry)) continue;
    ++total.entries;
    total.bytes += bytes;
  }
  for (const fs::path& entry : entries) fs::remove(entry.parent_path(), error);  // if empty
  for (const std::string_view name : {k_cache_temporary_name, k_cache_damaged_name}) {
    for (const fs::path& path : children(root_ / name, Unreadable::fails)) {
      // Never half of what somebody is about to publish.
      const std::optional<fs::path> grave = bury(root_, path);
      if (!grave) continue;
      const CacheClearResult removed = remove_directory(*grave);
      total.entries += removed.entries;
      total.bytes += removed.bytes;
    }
  }
  return total;
}

}  // namespace spjit

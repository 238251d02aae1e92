#include "runtime/cache/cache_directory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>

#include "runtime/cache/cache_record.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

namespace fs = std::filesystem;
using std::chrono::system_clock;

constexpr int k_rename_attempts = 8;

fs::path new_temporary(const fs::path& root) {
  return root / k_cache_temporary_name / fmt::format("{}-{}", ::getpid(), random_hex());
}

[[noreturn]] void fail_to(std::string_view action, const fs::path& path, std::string_view reason) {
  throw CacheError(
      fmt::format("cannot {} '{}': {}; check its permissions", action, path.native(), reason));
}

/// As is_real_directory(), for what was just listed: it must be possible to look at it.
bool is_listed_directory(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) return S_ISDIR(status.st_mode);
  if (errno != ENOENT) fail_to("inspect", path, std::strerror(errno));
  return false;
}

/// Gives it the file system's time.
void touch(const fs::path& path) {
  static_cast<void>(::utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW));
}

}  // namespace

std::string random_hex() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

std::vector<fs::path> children(const fs::path& directory, Unreadable unreadable) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    paths.push_back(it->path());
  }
  if (error && error != std::errc::no_such_file_or_directory && unreadable == Unreadable::fails) {
    fail_to("read", directory, error.message());
  }
  std::ranges::sort(paths);
  return paths;
}

bool is_real_directory(const fs::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::vector<fs::path> entry_directories(const fs::path& root) {
  std::vector<fs::path> entries;
  for (const fs::path& shard : children(root, Unreadable::fails)) {
    const std::string prefix = shard.filename();
    if (prefix.size() != 2 || !is_listed_directory(shard)) continue;
    for (const fs::path& entry : children(shard, Unreadable::fails)) {
      const std::string key = entry.filename();
      const bool belongs = is_cache_key(key) && key.starts_with(prefix);
      if (belongs && is_listed_directory(entry)) entries.push_back(entry);
    }
  }
  return entries;
}

std::int64_t bytes_of_files(const fs::path& directory) {
  std::int64_t bytes = 0;
  for (const fs::path& path : children(directory)) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode)) bytes += status.st_size;
  }
  return bytes;
}

std::optional<system_clock::time_point> modified(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return std::nullopt;
  // A damaged time must neither overflow nanoseconds nor their difference to now.
  constexpr time_t k_year_2255 = 9'000'000'000;
  const time_t seconds = std::clamp<time_t>(status.st_mtim.tv_sec, 0, k_year_2255);
  return system_clock::from_time_t(seconds) + std::chrono::duration_cast<system_clock::duration>(
                                                  std::chrono::nanoseconds(status.st_mtim.tv_nsec));
}

system_clock::duration cache_age(system_clock::time_point time,
                                 system_clock::time_point now) noexcept {
  if (time > now + k_cache_clock_skew) return system_clock::duration::max();
  return now - time;
}

system_clock::time_point cache_now(const fs::path& root) {
  if (!is_real_directory(root / k_cache_temporary_name)) return system_clock::now();
  try {
    const TemporaryEntry probe(root);
    if (const auto time = modified(probe.path())) return *time;
  } catch (const CacheError&) {
    // A cache that may only be read, or a full disk.
  }
  return system_clock::now();
}

void remove_older(const fs::path& root, const std::vector<fs::path>& paths,
                  std::chrono::hours age) {
  if (paths.empty()) return;
  const auto now = cache_now(root);
  for (const fs::path& path : paths) {
    const auto time = modified(path);
    if (!time || now - *time <= age) {
      if (time && *time > now + k_cache_clock_skew) touch(path);
      continue;
    }
    std::error_code ignored;
    try {
      if (const auto grave = bury(root, path)) fs::remove_all(*grave, ignored);
    } catch (const CacheError&) {
      continue;
    }
  }
}

SetAside set_aside(const fs::path& root, const fs::path& entry, const FileIdentity& identity) {
  // Between this look and the rename another process may have put a new entry in its place. Then
  // that one is moved: it costs a compilation.
  if (identity_of(entry) != identity) return SetAside::gone;
  const fs::path damaged = root / k_cache_damaged_name;
  const std::string name = fmt::format("{}-{}", entry.filename().native(), random_hex());
  try {
    create_private_directories(damaged);
  } catch (const CacheError&) {
    return SetAside::stuck;
  }
  // The time of setting aside decides how long it is kept.
  touch(entry);
  if (std::rename(entry.c_str(), (damaged / name).c_str()) == 0) return SetAside::moved;
  return errno == ENOENT || errno == ESTALE ? SetAside::gone : SetAside::stuck;
}

std::optional<fs::path> bury(const fs::path& root, const fs::path& path) {
  create_private_directories(root / k_cache_temporary_name);
  fs::path grave = new_temporary(root);
  if (std::rename(path.c_str(), grave.c_str()) == 0) return grave;
  const int error = errno;
  // As in rename_into_place(): the rename may have succeeded all the same.
  if (identity_of(grave)) return grave;
  if (error == ENOENT) return std::nullopt;
  fail_to("remove", path, std::strerror(error));
}

bool remove_entry(const fs::path& root, const fs::path& entry) {
  if (!is_listed_directory(entry)) return false;
  const std::optional<fs::path> grave = bury(root, entry);
  std::error_code ignored;
  if (grave) fs::remove_all(*grave, ignored);
  return grave.has_value();
}

bool rename_into_place(const fs::path& temporary, const FileIdentity& identity,
                       const fs::path& entry) {
  for (int attempt = 0;; ++attempt) {
    create_private_directories(entry.parent_path());
    if (std::rename(temporary.c_str(), entry.c_str()) == 0) return true;
    const int error = errno;
    if (identity_of(entry) == identity) return true;
    if (error == ENOTEMPTY || error == EEXIST) return false;
    // What removes entries may remove the empty shard between the two calls above.
    const bool shard_vanished = error == ENOENT && identity_of(temporary).has_value();
    if (!shard_vanished || attempt == k_rename_attempts) {
      throw CacheError(fmt::format("cannot publish '{}': {}; check the cache directory",
                                   entry.native(), std::strerror(error)));
    }
  }
}

TemporaryEntry::TemporaryEntry(const fs::path& root) : path_(new_temporary(root)) {
  create_private_directories(path_);
}

TemporaryEntry::~TemporaryEntry() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(path_, ignored);
}

void TemporaryEntry::add(std::string_view name, std::span<const std::byte> bytes) {
  const fs::path path = path_ / name;
  unsynced_.emplace_back(path, write_new_file(path, bytes));
}

bool TemporaryEntry::commit(const fs::path& entry, EntrySync sync) {
  for (auto& [path, file] : unsynced_) {
    if (sync == EntrySync::yes) {
      sync_and_close(std::move(file), path);
    } else {
      // Where network file systems report that a write failed.
      if (::close(file.release()) != 0) fail_to("write", path, std::strerror(errno));
    }
  }
  unsynced_.clear();
  if (sync == EntrySync::yes) sync_directory(path_);
  const std::optional<FileIdentity> identity = identity_of(path_);
  if (!identity) {
    throw CacheError(fmt::format("cannot publish '{}': '{}' was removed meanwhile", entry.native(),
                                 path_.native()));
  }
  committed_ = rename_into_place(path_, *identity, entry);
  return committed_;
}

}  // namespace spjit

#include "runtime/cache_directory.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>

#include "runtime/cache_record.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

namespace fs = std::filesystem;
using std::chrono::system_clock;

constexpr int k_rename_attempts = 8;

}  // namespace

std::string random_hex() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

std::vector<fs::path> children(const fs::path& directory) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    paths.push_back(it->path());
  }
  std::ranges::sort(paths);
  return paths;
}

bool is_real_directory(const fs::path& path) {
  std::error_code error;
  return fs::symlink_status(path, error).type() == fs::file_type::directory;
}

std::vector<fs::path> entry_directories(const fs::path& root) {
  std::vector<fs::path> entries;
  for (const fs::path& shard : children(root)) {
    const std::string prefix = shard.filename();
    if (prefix.size() != 2 || !is_real_directory(shard)) continue;
    for (const fs::path& entry : children(shard)) {
      const std::string key = entry.filename();
      const bool belongs = is_cache_key(key) && key.starts_with(prefix);
      if (belongs && is_real_directory(entry)) entries.push_back(entry);
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

void remove_older(const fs::path& directory, std::chrono::hours age) {
  const auto now = system_clock::now();
  for (const fs::path& path : children(directory)) {
    const auto time = modified(path);
    std::error_code ignored;
    if (time && cache_age(*time, now) > age) fs::remove_all(path, ignored);
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
  std::error_code ignored;
  fs::last_write_time(entry, fs::file_time_type::clock::now(), ignored);
  if (std::rename(entry.c_str(), (damaged / name).c_str()) == 0) return SetAside::moved;
  return errno == ENOENT || errno == ESTALE ? SetAside::gone : SetAside::stuck;
}

bool remove_entry(const fs::path& root, const fs::path& entry) {
  if (!is_real_directory(entry)) return false;
  const TemporaryEntry grave(root);
  if (std::rename(entry.c_str(), grave.path().c_str()) == 0) return true;
  if (errno == ENOENT || errno == ESTALE) return false;
  throw CacheError(fmt::format("cannot remove '{}': {}; check its permissions", entry.native(),
                               std::strerror(errno)));
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

TemporaryEntry::TemporaryEntry(const fs::path& root)
    : path_(root / k_cache_temporary_name / fmt::format("{}-{}", ::getpid(), random_hex())) {
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

bool TemporaryEntry::commit(const fs::path& entry) {
  for (auto& [path, file] : unsynced_) sync_and_close(std::move(file), path);
  unsynced_.clear();
  sync_directory(path_);
  const std::optional<FileIdentity> identity = identity_of(path_);
  if (!identity) {
    throw CacheError(fmt::format("cannot publish '{}': '{}' was removed meanwhile", entry.native(),
                                 path_.native()));
  }
  committed_ = rename_into_place(path_, *identity, entry);
  return committed_;
}

}  // namespace spjit

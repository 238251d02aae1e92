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
    std::error_code error;
    const auto size = fs::file_size(path, error);
    if (!error) bytes += static_cast<std::int64_t>(size);
  }
  return bytes;
}

std::optional<system_clock::time_point> modified(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return std::nullopt;
  return system_clock::from_time_t(status.st_mtim.tv_sec) +
         std::chrono::duration_cast<system_clock::duration>(
             std::chrono::nanoseconds(status.st_mtim.tv_nsec));
}

void remove_older(const fs::path& directory, std::chrono::hours age) {
  const auto now = system_clock::now();
  for (const fs::path& path : children(directory)) {
    const auto time = modified(path);
    std::error_code ignored;
    if (time && now - *time > age) fs::remove_all(path, ignored);
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
  const fs::path shard = entry.parent_path();
  for (int attempt = 0;; ++attempt) {
    create_private_directories(shard);
    if (std::rename(path_.c_str(), entry.c_str()) == 0) break;
    if (errno == ENOTEMPTY || errno == EEXIST) return false;
    // clear() may remove the empty shard between the two calls above.
    if (errno != ENOENT || attempt == k_rename_attempts) {
      throw CacheError(fmt::format("cannot publish '{}': {}; check the cache directory",
                                   entry.native(), std::strerror(errno)));
    }
  }
  committed_ = true;
  return true;
}

}  // namespace spjit

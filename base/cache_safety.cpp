#include "base/cache_safety.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace spjit {
namespace {

std::string distrust_of(const FileDescriptor& file, std::string_view name) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) {
    throw FileError(fmt::format("cannot inspect '{}': {}", name, std::strerror(errno)), errno);
  }
  return distrust(status.st_uid, status.st_mode, ::geteuid());
}

}  // namespace

std::string distrust(uid_t owner, mode_t mode, uid_t self) {
  constexpr uid_t k_root = 0;
  if (owner != self && owner != k_root) {
    return fmt::format("belongs to user {}, not to user {} who asks", owner, self);
  }
  const mode_t permissions = mode & 07777U;
  if ((mode & S_IWOTH) != 0) {
    return fmt::format("has mode {:04o}, with which everybody can write to it", permissions);
  }
  if ((mode & S_IWGRP) != 0) {
    return fmt::format("has mode {:04o}, with which its group can write to it", permissions);
  }
  return {};
}

std::string foreign_home(const std::filesystem::path& home, const std::filesystem::path& directory,
                         uid_t self) {
  constexpr uid_t k_root = 0;
  if (self != k_root) return {};
  for (std::filesystem::path path = directory; !path.empty(); path = path.parent_path()) {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0) {
      if (status.st_uid != k_root) {
        return fmt::format("'{}' belongs to user {}, and this process runs as root", path.native(),
                           status.st_uid);
      }
      // Not longer than `home`, which may end with a '/': it is `home`, or above it.
      if (path.native().size() <= home.native().size()) return {};
    }
    if (path == path.parent_path()) break;
  }
  return {};
}

void require_safe_directory(const FileDescriptor& directory, const std::filesystem::path& path) {
  const std::string reason = distrust_of(directory, path.native());
  if (reason.empty()) return;
  throw CacheError(fmt::format(
      "cache directory '{}' {}: what it holds is code that runs; make it yours (chown, chmod "
      "go-w), choose another one, or allow it with --cache-unsafe or SPJIT_CACHE_UNSAFE=1",
      path.native(), reason));
}

void require_trusted(const FileDescriptor& file, std::string_view name) {
  const std::string reason = distrust_of(file, name);
  if (!reason.empty()) throw CacheError(fmt::format("'{}' {}", name, reason));
}

}  // namespace spjit

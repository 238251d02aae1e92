#include "base/safe_path.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <deque>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/file_descriptor.hpp"

namespace spjit {
namespace {

namespace fs = std::filesystem;

constexpr int k_most_links = 40;  // as the kernel follows
constexpr mode_t k_others_write = S_IWGRP | S_IWOTH;

FileDescriptor open_part(const FileDescriptor& folder, const std::string& name) {
  return FileDescriptor(::openat(folder.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
}

/// Where an open symbolic link leads; empty if that cannot be read.
fs::path target_of(const FileDescriptor& link) {
  std::array<char, PATH_MAX> text{};
  const ssize_t size = ::readlinkat(link.get(), "", text.data(), text.size());
  return size > 0 ? fs::path(text.begin(), text.begin() + size) : fs::path();
}

bool is_sticky(const struct stat& folder) {
  return (folder.st_mode & k_others_write) != 0 && (folder.st_mode & S_ISVTX) != 0;
}

/// Follows one name.
class Walk {
 public:
  explicit Walk(const fs::path& path) { lead_to(path); }

  SafePath follow() {
    while (!failed_ && result_.problem.empty() && !parts_.empty()) {
      const std::string part = std::exchange(parts_.front(), {});
      parts_.pop_front();
      step(part);
    }
    if (failed_ || !result_.problem.empty()) result_.path.clear();
    return std::move(result_);
  }

 private:
  /// What is still to be followed begins with `path`.
  void lead_to(const fs::path& path) {
    std::deque<std::string> parts;
    for (const fs::path& part : path.relative_path()) parts.push_back(part.native());
    parts_.insert(parts_.begin(), std::make_move_iterator(parts.begin()),
                  std::make_move_iterator(parts.end()));
    if (path.is_absolute()) enter(FileDescriptor(::open("/", O_PATH | O_CLOEXEC)), "/");
  }

  void step(const std::string& part) {
    if (part.empty() || part == ".") return enter(open_part(here_, "."), result_.path);
    if (part == "..") return enter(open_part(here_, ".."), result_.path.parent_path());
    FileDescriptor next = open_part(here_, part);
    struct stat status {};
    if (!next || ::fstat(next.get(), &status) != 0) return fail();
    const fs::path path = result_.path / part;
    if (is_sticky(status_) && status.st_uid != 0 && status.st_uid != ::geteuid()) {
      result_.problem = fmt::format("'{}' belongs to user {}, in a folder that others can write to",
                                    path.native(), status.st_uid);
    } else if (S_ISLNK(status.st_mode)) {
      const fs::path target = target_of(next);
      if (target.empty() || ++links_ > k_most_links) return fail();
      lead_to(target);
    } else if (S_ISDIR(status.st_mode)) {
      enter(std::move(next), path);
    } else if (S_ISREG(status.st_mode) && parts_.empty()) {
      judge(status.st_uid, status.st_mode, path);
    } else {
      fail();
    }
  }

  void enter(FileDescriptor folder, const fs::path& path) {
    if (!folder || ::fstat(folder.get(), &status_) != 0 || !S_ISDIR(status_.st_mode)) return fail();
    const mode_t judged = is_sticky(status_) ? status_.st_mode & ~k_others_write : status_.st_mode;
    judge(status_.st_uid, judged, path);
    here_ = std::move(folder);
  }

  void judge(uid_t owner, mode_t mode, const fs::path& path) {
    const Refusal distrusted = distrust(owner, mode, ::geteuid());
    if (distrusted) {
      result_.problem = fmt::format("'{}' {}", path.native(), distrusted.reason());
    }
    result_.path = path;
  }

  void fail() { failed_ = true; }

  std::deque<std::string> parts_;  ///< still to be followed
  FileDescriptor here_;            ///< the folder that result_.path names
  struct stat status_ {};          ///< its
  int links_ = 0;
  bool failed_ = false;
  SafePath result_;
};

Refusal distrust_of(const FileDescriptor& file, std::string_view name) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) {
    throw FileError(fmt::format("cannot inspect '{}': {}", name, std::strerror(errno)), errno);
  }
  return distrust(status.st_uid, status.st_mode, ::geteuid());
}

}  // namespace

SafePath find_safely(const fs::path& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  if (error || absolute.native().find('\0') != std::string::npos) return {};
  return Walk(absolute).follow();
}

Refusal distrust(uid_t owner, mode_t mode, uid_t self) {
  constexpr uid_t k_root = 0;
  if (owner != self && owner != k_root) {
    return Refusal(fmt::format("belongs to user {}, not to user {} who asks", owner, self));
  }
  const mode_t permissions = mode & 07777U;
  if ((mode & S_IWOTH) != 0) {
    return Refusal(
        fmt::format("has mode {:04o}, with which everybody can write to it", permissions));
  }
  if ((mode & S_IWGRP) != 0) {
    return Refusal(
        fmt::format("has mode {:04o}, with which its group can write to it", permissions));
  }
  return Refusal::none();
}

Refusal foreign_home(const std::filesystem::path& home, const std::filesystem::path& directory,
                     uid_t self) {
  constexpr uid_t k_root = 0;
  if (self != k_root) return Refusal::none();
  for (std::filesystem::path path = directory; !path.empty(); path = path.parent_path()) {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0) {
      if (status.st_uid != k_root) {
        return Refusal(fmt::format("'{}' belongs to user {}, and this process runs as root",
                                   path.native(), status.st_uid));
      }
      // Not longer than `home`, which may end with a '/': it is `home`, or above it.
      if (path.native().size() <= home.native().size()) return Refusal::none();
    }
    if (path == path.parent_path()) break;
  }
  return Refusal::none();
}

void require_safe_directory(const FileDescriptor& directory, const std::filesystem::path& path) {
  const Refusal distrusted = distrust_of(directory, path.native());
  if (!distrusted) return;
  throw CacheError(fmt::format(
      "cache directory '{}' {}: what it holds is code that runs; make it yours (chown, chmod "
      "go-w), choose another one, or allow it with --cache-unsafe or SPJIT_CACHE_UNSAFE=1",
      path.native(), distrusted.reason()));
}

void require_trusted(const FileDescriptor& file, std::string_view name) {
  const Refusal distrusted = distrust_of(file, name);
  if (distrusted) throw CacheError(fmt::format("'{}' {}", name, distrusted.reason()));
}

}  // namespace spjit

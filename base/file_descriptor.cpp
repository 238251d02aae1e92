#include "base/file_descriptor.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

namespace spjit {
namespace {

constexpr mode_t k_private_directory = 0700;
constexpr mode_t k_private_file = 0400;

[[noreturn]] void fail(std::string_view action, std::string_view name, int error) {
  std::string hint;
  if (error == ENOSPC || error == EDQUOT) hint = "; free space there or choose another directory";
  if (error == EACCES || error == EPERM || error == EROFS) {
    hint = "; make it accessible or choose another directory (SPJIT_CACHE_DIR)";
  }
  throw FileError(fmt::format("cannot {} '{}': {}{}", action, name, std::strerror(error), hint),
                  error);
}

std::optional<FileIdentity> identity_in(const struct stat& status) {
  return FileIdentity{.device = status.st_dev, .number = status.st_ino};
}

/// Whether a page that was mapped stays, whatever becomes of the file's name. On a network it may
/// go with a file that another machine removes.
bool keeps_pages(const FileDescriptor& file) {
  constexpr std::array<std::uint64_t, 6> k_local = {EXT4_SUPER_MAGIC,  XFS_SUPER_MAGIC,
                                                    BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC,
                                                    TMPFS_MAGIC,       OVERLAYFS_SUPER_MAGIC};
  struct statfs status {};
  return ::fstatfs(file.get(), &status) == 0 &&
         std::ranges::find(k_local, static_cast<std::uint64_t>(status.f_type)) != k_local.end();
}

}  // namespace

bool FileError::transient() const noexcept {
  constexpr std::array k_codes = {EMFILE, ENFILE,    ENOMEM, EAGAIN, EINTR,
                                  EBUSY,  ETIMEDOUT, ENOSPC, EDQUOT, EROFS};
  return std::ranges::find(k_codes, code_) != k_codes.end();
}

bool FileError::stale() const noexcept { return code_ == ESTALE; }

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

std::optional<FileIdentity> identity_of(const FileDescriptor& file) noexcept {
  struct stat status {};
  return ::fstat(file.get(), &status) == 0 ? identity_in(status) : std::nullopt;
}

std::optional<FileIdentity> identity_of(const std::filesystem::path& path) noexcept {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 ? identity_in(status) : std::nullopt;
}

FileDescriptor open_directory(const std::filesystem::path& path) noexcept {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

FileDescriptor open_real_directory(const std::filesystem::path& path) noexcept {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

FileDescriptor open_file(const FileDescriptor& directory, std::string_view name) {
  const std::string text(name);
  // O_NONBLOCK: a FIFO of that name must not block; it means nothing for regular files.
  const int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
  FileDescriptor file(::openat(directory.get(), text.c_str(), flags));
  if (!file) fail("open", name, errno);
  return file;
}

std::int64_t file_size(const FileDescriptor& file, std::string_view name) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail("inspect", name, errno);
  if (!S_ISREG(status.st_mode)) {
    throw CacheError(fmt::format("'{}' is no regular file", name));
  }
  return status.st_size;
}

FileBytes read_file(const FileDescriptor& file, std::string_view name, std::int64_t limit_bytes) {
  const std::int64_t size = file_size(file, name);
  if (size > limit_bytes) {
    throw CacheError(
        fmt::format("'{}' has {} bytes, expected at most {}", name, size, limit_bytes));
  }
  return read_part(file, name, 0, static_cast<std::size_t>(size));
}

FileBytes read_part(const FileDescriptor& file, std::string_view name, std::int64_t offset,
                    std::size_t size) {
  FileBytes result{.data = std::make_unique_for_overwrite<std::byte[]>(size), .size = size};
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::pread(file.get(), result.data.get() + done, size - done,
                                offset + static_cast<std::int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", name, errno);
    if (got == 0) {
      throw CacheError(
          fmt::format("'{}' shrank to {} bytes", name, offset + static_cast<std::int64_t>(done)));
    }
    done += static_cast<std::size_t>(got);
  }
  return result;
}

std::optional<FileBytes> map_file(const FileDescriptor& file, std::size_t size,
                                  std::int64_t offset) {
  if (size == 0 || !keeps_pages(file)) return std::nullopt;
  try {
    return FileBytes{
        .data = nullptr, .size = size, .pages = PageMapping::of_file(file.get(), size, offset)};
  } catch (const NoPages&) {
    return std::nullopt;
  }
}

void write_all(const FileDescriptor& file, std::span<const std::byte> bytes,
               std::string_view name) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", name, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

FileDescriptor write_new_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  FileDescriptor file(::open(path.c_str(), flags, k_private_file));
  if (!file) fail("create", path.native(), errno);
  write_all(file, bytes, path.native());
  // Lets one journal commit serve all files of an entry. A hint: sync_and_close() sees failures.
  static_cast<void>(::sync_file_range(file.get(), 0, 0, SYNC_FILE_RANGE_WRITE));
  return file;
}

void sync_and_close(FileDescriptor file, const std::filesystem::path& path) {
  if (::fsync(file.get()) != 0) fail("sync", path.native(), errno);
  // Closing is where network file systems report that a write failed.
  if (::close(file.release()) != 0) fail("close", path.native(), errno);
}

void sync_directory(const std::filesystem::path& path) {
  const FileDescriptor directory = open_directory(path);
  if (!directory) fail("open directory", path.native(), errno);
  // Some network file systems cannot sync directories and say so with EINVAL.
  if (::fsync(directory.get()) != 0 && errno != EINVAL) fail("sync", path.native(), errno);
}

void create_private_directories(const std::filesystem::path& path) {
  if (path.empty() || ::mkdir(path.c_str(), k_private_directory) == 0) return;
  const int error = errno;
  if (error == ENOENT && path.has_parent_path() && path.parent_path() != path) {
    create_private_directories(path.parent_path());
    if (::mkdir(path.c_str(), k_private_directory) == 0) return;
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return;
  fail("create directory", path.native(), error);
}

}  // namespace spjit

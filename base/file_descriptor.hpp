#pragma once

/// @file
/// Plain files through POSIX calls: the cache needs openat, fsync and exact error codes, which the
/// standard library does not give.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/page_mapping.hpp"
#include "spjit/error.hpp"

namespace spjit {

/// A system call on a file of the cache failed.
class FileError : public CacheError {
 public:
  FileError(const std::string& message, int code) : CacheError(message), code_(code) {}

  /// The process or the machine lacked resources; the file may be in order.
  [[nodiscard]] bool transient() const noexcept;

  /// Another machine removed the file while it was open here (a network file system's ESTALE).
  [[nodiscard]] bool stale() const noexcept;

 private:
  int code_;  // errno
};

/// Owns an open file descriptor; empty holds none. Move-only.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();

  /// Gives up ownership.
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// The bytes of a file, a copy or its own pages. Moving keeps the addresses.
struct FileBytes {
  std::unique_ptr<std::byte[]> data;  ///< not zeroed before it is read into; null if mapped
  std::size_t size = 0;
  PageMapping pages = {};  ///< of the file; empty if it was copied

  [[nodiscard]] bool is_mapped() const noexcept { return !pages.bytes().empty(); }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {is_mapped() ? pages.bytes().data() : data.get(), size};
  }
};

/// Which file it is, whatever its name.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t number = 0;  ///< inode

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

/// Nothing if it cannot be said.
[[nodiscard]] std::optional<FileIdentity> identity_of(const FileDescriptor& file) noexcept;
/// Identity of what a name names, a symbolic link itself; nothing if there is none.
[[nodiscard]] std::optional<FileIdentity> identity_of(const std::filesystem::path& path) noexcept;

/// Opens a directory for reading and for the *at functions; empty (errno set) if that fails.
[[nodiscard]] FileDescriptor open_directory(const std::filesystem::path& path) noexcept;

/// Opens a directory, never through a symbolic link at the end of `path` (errno: ENOTDIR).
[[nodiscard]] FileDescriptor open_real_directory(const std::filesystem::path& path) noexcept;

/// Opens the regular file `name` in `directory` for reading, never through a symbolic link.
/// Throws FileError.
[[nodiscard]] FileDescriptor open_file(const FileDescriptor& directory, std::string_view name);

/// The size of an open regular file. Throws CacheError, also for what is no regular file.
[[nodiscard]] std::int64_t file_size(const FileDescriptor& file, std::string_view name);

/// The whole of an open file. Throws CacheError if it has more than `limit_bytes`, or cannot be
/// read to the size it had at first.
[[nodiscard]] FileBytes read_file(const FileDescriptor& file, std::string_view name,
                                  std::int64_t limit_bytes);

/// `size` bytes of an open file from `offset` on. Throws CacheError if it has less.
[[nodiscard]] FileBytes read_part(const FileDescriptor& file, std::string_view name,
                                  std::int64_t offset, std::size_t size);

/// `size` bytes of an open file from `offset` on, a multiple of the page size, mapped. Nothing
/// where they have to be copied: the file system refuses, or is not known to keep the pages of an
/// open file in this machine.
[[nodiscard]] std::optional<FileBytes> map_file(const FileDescriptor& file, std::size_t size,
                                                std::int64_t offset = 0);

/// Writes all of `bytes` where an open file is written next. Throws FileError.
void write_all(const FileDescriptor& file, std::span<const std::byte> bytes, std::string_view name);

/// Creates `path` (which must not exist; mode 0400, as others may have it mapped), writes `bytes`
/// and begins, but does not wait for, their way to the disk. Throws FileError; a partial file may
/// be left.
[[nodiscard]] FileDescriptor write_new_file(const std::filesystem::path& path,
                                            std::span<const std::byte> bytes);

/// Waits until a file just written is on the disk, and closes it. Throws FileError.
void sync_and_close(FileDescriptor file, const std::filesystem::path& path);

/// Waits until the names in a directory are on the disk. Throws FileError.
void sync_directory(const std::filesystem::path& path);

/// `mkdir -p` with mode 0700 for every directory it creates. Throws FileError.
void create_private_directories(const std::filesystem::path& path);

}  // namespace spjit

#pragma once

/// @file
/// Whole files in and out.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "base/file_descriptor.hpp"

namespace spjit {

/// An open regular file and its size when it was opened.
struct OpenFile {
  FileDescriptor descriptor;
  std::int64_t bytes = 0;
};

/// Opens a file for reading. Throws IoError, also for what is no regular file (a FIFO, a device, a
/// socket: none is waited for).
[[nodiscard]] OpenFile open_regular_file(const std::filesystem::path& path);

/// Everything a regular file holds. Throws IoError, also for anything else (a FIFO, a device, a
/// socket: none is waited for) and for a file larger than the machine's memory.
[[nodiscard]] std::vector<std::byte> read_file(const std::filesystem::path& path);

inline constexpr mode_t k_new_file_mode = 0666;

/// A file that gets its name when it is whole. Until then it has none, so that nothing is left of
/// it however the process ends. Only on file systems without such files (O_TMPFILE) it is a
/// temporary file beside its target, which the destructor removes. Throws IoError.
class TemporaryFile {
 public:
  /// Throws IoError, also if `target` is there and is no regular file: a device is not replaced.
  /// `mode` as for open(2), less the umask.
  explicit TemporaryFile(const std::filesystem::path& target, mode_t mode = k_new_file_mode);
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile();

  void write(std::span<const std::byte> contents);

  /// Flushes it to the disk, then gives it the name of its target; nothing may be written after. If
  /// the name is taken, the file has another one beside it for the moment between two system calls.
  void publish();

 private:
  void open_unnamed();
  void open_named();
  /// Gives the unnamed file a name; an error number, 0 for none.
  [[nodiscard]] int link_to(const char* name) const;
  /// Calls `take` with names beside the target until it gives something else than EEXIST.
  template <class Take>
  void take_name(const Take& take);

  std::filesystem::path target_;
  mode_t mode_;
  std::filesystem::path path_;  ///< its name beside the target; empty: it has none
  FileDescriptor file_;
};

/// Writes a TemporaryFile and publishes it: a reader sees the old file or the new one, whole.
/// Throws IoError.
void publish_file(const std::filesystem::path& path, std::span<const std::byte> contents);

}  // namespace spjit

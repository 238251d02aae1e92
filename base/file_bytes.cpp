#include "base/file_bytes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "base/memory_bytes.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

[[noreturn]] void fail_errno(const std::filesystem::path& path, const char* what, int error) {
  throw IoError(
      fmt::format("{}: {}: {}", path.string(), what, std::generic_category().message(error)));
}

// The system would take such a path for the part before the zero byte, and says of an empty one
// that it is not there.
void require_plain(const std::filesystem::path& path) {
  if (path.empty()) throw IoError("the path of a file is empty; expected one");
  if (path.native().find('\0') != std::string::npos) {
    throw IoError(fmt::format("{}: a path cannot have a zero byte in it", path.native()));
  }
}

std::string link_of(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

const char* kind_of(mode_t mode) {
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode)) return "a character device";
  if (S_ISBLK(mode)) return "a block device";
  return "no regular file";
}

void check_regular(const std::filesystem::path& path, const struct stat& status) {
  if (S_ISDIR(status.st_mode)) fail_errno(path, "cannot read", EISDIR);
  if (S_ISREG(status.st_mode)) return;
  throw IoError(fmt::format(
      "{}: is {}: expected a regular file, for its size is needed; write the bytes to a file first",
      path.string(), kind_of(status.st_mode)));
}

void check_size(const std::filesystem::path& path, std::int64_t bytes) {
  if (bytes < memory_bytes()) return;
  throw IoError(fmt::format("{}: has {} bytes: expected less than {}, the memory of this machine",
                            path.string(), bytes, memory_bytes()));
}

}  // namespace

TemporaryFile::TemporaryFile(const std::filesystem::path& target, mode_t mode)
    : target_(target), mode_(mode) {
  require_plain(target);
  struct stat status = {};
  if (::stat(target.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    throw IoError(fmt::format("{}: is there already and is no regular file: name another one",
                              target.string()));
  }
  open_unnamed();
  if (!file_) {
    open_named();
  }
}

TemporaryFile::~TemporaryFile() {
  if (!path_.empty()) {
    ::unlink(path_.c_str());
  }
}

void TemporaryFile::open_unnamed() {
  const std::filesystem::path folder = target_.has_parent_path() ? target_.parent_path() : ".";
  file_ = FileDescriptor(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode_));
  // Its name is given through /proc, which may not be there.
  if (file_ && ::access(link_of(file_.get()).c_str(), F_OK) != 0) file_ = {};
}

void TemporaryFile::open_named() {
  take_name([this](const char* name) {
    file_ = FileDescriptor(::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode_));
    return file_ ? 0 : errno;
  });
}

template <class Take>
void TemporaryFile::take_name(const Take& take) {
  // Names carry the process and a count of tries: EEXIST settles races, also between threads.
  constexpr int k_tries = 1000;
  int error = EEXIST;
  std::filesystem::path name;
  for (int attempt = 0; attempt < k_tries && error == EEXIST; ++attempt) {
    name = target_;
    name += fmt::format(".tmp-{}-{}", ::getpid(), attempt);
    error = take(name.c_str());
  }
  if (error != 0) {
    fail_errno(target_, "cannot create a temporary file beside it", error);
  }
  path_ = std::move(name);
}

void TemporaryFile::write(std::span<const std::byte> contents) {
  while (!contents.empty()) {
    const ssize_t written = ::write(file_.get(), contents.data(), contents.size());
    if (written < 0 && errno != EINTR) {
      fail_errno(target_, "cannot write", errno);
    }
    contents = contents.subspan(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
  }
}

int TemporaryFile::link_to(const char* name) const {
  const std::string self = link_of(file_.get());
  return ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
}

void TemporaryFile::publish() {
  if (::fsync(file_.get()) != 0) {
    fail_errno(target_, "cannot write", errno);
  }
  if (path_.empty()) {
    const int error = link_to(target_.c_str());
    if (error != 0 && error != EEXIST) {
      fail_errno(target_, "cannot give the file its name", error);
    }
    // A link replaces nothing; a rename does.
    if (error == EEXIST) {
      take_name([this](const char* name) { return link_to(name); });
    }
  }
  if (::close(file_.release()) != 0) {
    fail_errno(target_, "cannot write", errno);
  }
  if (path_.empty()) {
    return;
  }
  if (::rename(path_.c_str(), target_.c_str()) != 0) {
    fail_errno(target_, "cannot rename the temporary file to it", errno);
  }
  path_.clear();
}

OpenFile open_regular_file(const std::filesystem::path& path) {
  require_plain(path);
  // Before it is opened: that alone means something to some devices.
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) fail_errno(path, "cannot open", errno);
  check_regular(path, status);
  // O_NONBLOCK: a FIFO that took its place meanwhile must not block.
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file || ::fstat(file.get(), &status) != 0) {
    fail_errno(path, "cannot open", errno);
  }
  check_regular(path, status);
  return {std::move(file), status.st_size};
}

std::vector<std::byte> read_file(const std::filesystem::path& path) {
  const auto [file, bytes] = open_regular_file(path);
  check_size(path, bytes);
  // Files of /proc say 0 bytes and a file may grow: read until the end, whatever the size was.
  std::vector<std::byte> contents(static_cast<std::size_t>(bytes) + 1);
  std::size_t have = 0;
  for (;;) {
    if (have == contents.size()) {
      check_size(path, static_cast<std::int64_t>(have));
      contents.resize(2 * contents.size() + 4096);
    }
    const ssize_t got = ::read(file.get(), contents.data() + have, contents.size() - have);
    if (got < 0 && errno != EINTR) {
      fail_errno(path, "cannot read", errno);
    }
    if (got == 0) {
      break;
    }
    have += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  }
  contents.resize(have);
  return contents;
}

void publish_file(const std::filesystem::path& path, std::span<const std::byte> contents) {
  TemporaryFile file(path);
  file.write(contents);
  file.publish();
}

}  // namespace spjit

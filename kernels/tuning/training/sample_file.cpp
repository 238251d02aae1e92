#include "kernels/tuning/training/sample_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/printable.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

constexpr std::int64_t k_most_bytes = std::int64_t{4} << 30;

[[noreturn]] void fail(const std::filesystem::path& path, std::string_view what) {
  throw IoError(fmt::format("{}: cannot be {}: {}", path.string(), what, std::strerror(errno)));
}

FileDescriptor open_for_appending(const std::filesystem::path& path) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file) fail(path, "opened");
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      throw IoError(path.string() + ": another process adds to it; wait or name another file");
    }
    fail(path, "locked");
  }
  return file;
}

}  // namespace

SampleFile::SampleFile(const std::filesystem::path& path, std::string_view family, TimeKind times)
    : path_(path), file_(open_for_appending(path)) {
  const FileBytes content = read_file(file_, path.string(), k_most_bytes);
  const std::string_view text(reinterpret_cast<const char*>(content.data.get()), content.size);
  std::size_t line = 1;
  for (std::size_t end = 0; (end = text.find('\n', bytes_)) != std::string_view::npos; ++line) {
    try {
      const SampleLine read = read_sample_line(text.substr(bytes_, end - bytes_));
      if (read.family != family || read.times != times) {
        throw Error(fmt::format("tiles of {} with times {}; expected {} and {}",
                                printable(read.family), to_string(read.times), family,
                                to_string(times)));
      }
      names_.insert(read.name);
    } catch (const Error& error) {
      throw Error(fmt::format("{}, line {}: {}", path.string(), line, error.what()));
    }
    bytes_ = end + 1;
  }
  cut_bytes_ = text.size() - bytes_;
  if (cut_bytes_ > 0 && ::ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0) {
    fail(path, "shortened");
  }
}

void SampleFile::append(const SampleLine& samples) {
  const std::string line = write_sample_line(samples) + "\n";
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t count = ::write(file_.get(), line.data() + done, line.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int error = errno;
      // What was written of it is cut off; where even that fails, the next run does it.
      (void)!::ftruncate(file_.get(), static_cast<off_t>(bytes_));
      errno = error;
      fail(path_, "written");
    }
    done += static_cast<std::size_t>(count);
  }
  bytes_ += line.size();
  if (::fsync(file_.get()) != 0) fail(path_, "brought to the disk");
  names_.insert(samples.name);
}

}  // namespace spjit

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <cerrno>
#include <exception>
#include <new>

#include "spjit/error.hpp"
#include "tar_archive.hpp"

namespace spjit::cli {
namespace {

// tar's record, to a multiple of which archives are padded, and how much is written at once.
constexpr int k_record_bytes = 10240;
constexpr int k_written_at_once = 12 * k_record_bytes;
constexpr int k_private_file = 0600;

}  // namespace

struct TarWriter::Sink {
  WriteBytes write;
  std::exception_ptr failure;  // must not pass through libarchive, which is C

  static la_ssize_t take(archive* writer, void* self, const void* buffer, std::size_t length) {
    auto& sink = *static_cast<Sink*>(self);
    try {
      sink.write({static_cast<const std::byte*>(buffer), length});
      return static_cast<la_ssize_t>(length);
    } catch (...) {
      sink.failure = std::current_exception();
      archive_set_error(writer, EIO, "cannot be written");
      return ARCHIVE_FATAL;
    }
  }
};

TarWriter::TarWriter(WriteBytes write)
    : sink_(new Sink{.write = std::move(write), .failure = nullptr}),
      archive_(archive_write_new()) {
  if (archive_ == nullptr) throw std::bad_alloc();
  archive_write_set_format_ustar(archive_);
  archive_write_set_bytes_per_block(archive_, k_written_at_once);
  archive_write_set_bytes_in_last_block(archive_, k_record_bytes);
  if (archive_write_open(archive_, sink_.get(), nullptr, &Sink::take, nullptr) != ARCHIVE_OK) {
    archive_write_free(archive_);
    throw std::bad_alloc();
  }
}

TarWriter::~TarWriter() {
  // Freeing would end an archive that was not finished as if it were.
  sink_->write = [](std::span<const std::byte> /*bytes*/) {};
  archive_write_free(archive_);
}

void TarWriter::add(const std::string& path, std::span<const std::byte> bytes) {
  const std::unique_ptr<archive_entry, decltype(&archive_entry_free)> entry(archive_entry_new(),
                                                                            archive_entry_free);
  if (!entry) throw std::bad_alloc();
  archive_entry_set_pathname(entry.get(), path.c_str());
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_entry_set_perm(entry.get(), k_private_file);
  archive_entry_set_mtime(entry.get(), 0, 0);
  archive_entry_set_size(entry.get(), static_cast<la_int64_t>(bytes.size()));
  require(archive_write_header(archive_, entry.get()) == ARCHIVE_OK, path);
  const auto written = archive_write_data(archive_, bytes.data(), bytes.size());
  require(written == static_cast<la_ssize_t>(bytes.size()), path);
}

void TarWriter::finish() { require(archive_write_close(archive_) == ARCHIVE_OK, "its end"); }

void TarWriter::require(bool success, const std::string& path) const {
  if (success) return;
  if (sink_->failure) std::rethrow_exception(sink_->failure);
  const char* text = archive_error_string(archive_);
  throw IoError(fmt::format("cannot add '{}' to the archive: {}", path,
                            text == nullptr ? "no reason given" : text));
}

}  // namespace spjit::cli

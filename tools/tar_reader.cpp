#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <new>

#include "spjit/error.hpp"
#include "tar_archive.hpp"
#include "terminal.hpp"

namespace spjit::cli {
namespace {

constexpr std::size_t k_block_bytes = std::size_t{64} << 10;
// Tar's end mark: two blocks of zeros.
constexpr std::int64_t k_end_mark_bytes = 1024;

// What a member is, if it is nothing to be read here.
const char* unwanted_kind(archive_entry* entry) {
  if (archive_entry_hardlink(entry) != nullptr) return "a hard link";
  switch (archive_entry_filetype(entry)) {
    case AE_IFREG:
    case AE_IFDIR:
      return nullptr;
    case AE_IFLNK:
      return "a symbolic link";
    case AE_IFCHR:
    case AE_IFBLK:
      return "a device";
    case AE_IFIFO:
      return "a FIFO";
    default:
      return "of no known kind";
  }
}

}  // namespace

struct TarReader::Source {
  ReadBytes read;
  std::int64_t most_bytes;
  std::int64_t given_bytes = 0;
  std::int64_t zeros_from = 0;  // where the zeros begin that all given so far ends in
  std::vector<std::byte> block = std::vector<std::byte>(k_block_bytes);
  std::exception_ptr failure = nullptr;  // must not pass through libarchive, which is C

  std::size_t next_block() {
    const std::size_t got = read(block);
    const auto last = std::find_if(block.rend() - static_cast<std::ptrdiff_t>(got), block.rend(),
                                   [](std::byte byte) { return byte != std::byte{0}; });
    if (last != block.rend()) zeros_from = given_bytes + (block.rend() - last);
    given_bytes += static_cast<std::int64_t>(got);
    if (given_bytes > most_bytes) {
      throw IoError(fmt::format("has over {} bytes, the most that are read", most_bytes));
    }
    return got;
  }

  static la_ssize_t give(archive* reader, void* self, const void** buffer) {
    auto& source = *static_cast<Source*>(self);
    try {
      *buffer = source.block.data();
      return static_cast<la_ssize_t>(source.next_block());
    } catch (...) {
      source.failure = std::current_exception();
      archive_set_error(reader, EIO, "cannot be read");
      return ARCHIVE_FATAL;
    }
  }
};

TarReader::TarReader(ReadBytes read, std::int64_t most_bytes)
    : source_(new Source{.read = std::move(read), .most_bytes = most_bytes}),
      archive_(archive_read_new()) {
  if (archive_ == nullptr) throw std::bad_alloc();
  // Of all formats and compressions that libarchive knows, only this one.
  archive_read_support_format_tar(archive_);
  if (archive_read_open(archive_, source_.get(), nullptr, &Source::give, nullptr) != ARCHIVE_OK) {
    const std::unique_ptr<archive, decltype(&archive_read_free)> freed(archive_, archive_read_free);
    fail();
  }
}

TarReader::~TarReader() { archive_read_free(archive_); }

std::optional<TarMember> TarReader::next() {
  archive_entry* entry = nullptr;
  const int status = archive_read_next_header(archive_, &entry);
  if (status == ARCHIVE_EOF) {
    require_clean_end();
    return std::nullopt;
  }
  // Warnings too: nothing here is to be guessed.
  if (status != ARCHIVE_OK) fail();
  const char* path = archive_entry_pathname(entry);
  if (path == nullptr) throw IoError("a member has no name that can be read");
  member_ = {.path = path,
             .is_directory = archive_entry_filetype(entry) == AE_IFDIR,
             .bytes = archive_entry_size(entry)};
  if (const char* kind = unwanted_kind(entry); kind != nullptr) {
    throw IoError(fmt::format("member '{}' is {}, expected a plain file", printable(path), kind));
  }
  return member_;
}

std::vector<std::byte> TarReader::content() {
  std::vector<std::byte> content;
  while (true) {
    const void* data = nullptr;
    std::size_t size = 0;
    la_int64_t offset = 0;
    const int status = archive_read_data_block(archive_, &data, &size, &offset);
    if (status == ARCHIVE_EOF) break;
    if (status != ARCHIVE_OK) fail();
    const auto have = static_cast<std::int64_t>(content.size());
    const bool in_order = offset == have && static_cast<std::int64_t>(size) <= member_.bytes - have;
    if (!in_order) break;
    const auto* bytes = static_cast<const std::byte*>(data);
    content.insert(content.end(), bytes, bytes + size);
  }
  if (static_cast<std::int64_t>(content.size()) != member_.bytes) {
    throw IoError(
        fmt::format("member '{}' is sparse, expected a plain file", printable(member_.path)));
  }
  return content;
}

void TarReader::require_clean_end() {
  // libarchive does without the mark, and leaves alone what follows it.
  const std::int64_t end = archive_read_header_position(archive_);
  while (source_->next_block() > 0) {
  }
  if (source_->given_bytes < end + k_end_mark_bytes) {
    throw IoError("ends without tar's end mark: it was cut short");
  }
  if (source_->zeros_from > end) throw IoError("goes on after tar's end mark");
}

void TarReader::fail() const {
  if (source_->failure) std::rethrow_exception(source_->failure);
  const char* text = archive_error_string(archive_);
  throw IoError(fmt::format("is no tar archive, or a damaged one: {}",
                            printable(text == nullptr ? "no reason given" : text)));
}

}  // namespace spjit::cli

#include "matrix/zip_archive.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "matrix/limits.hpp"
#include "matrix/text_lines.hpp"

namespace spjit {
namespace {

class ZipError {
 public:
  ZipError() { zip_error_init(&error_); }
  ~ZipError() { zip_error_fini(&error_); }
  ZipError(const ZipError&) = delete;
  ZipError& operator=(const ZipError&) = delete;

  [[nodiscard]] zip_error_t* get() { return &error_; }
  [[nodiscard]] const char* text() { return zip_error_strerror(&error_); }

 private:
  zip_error_t error_;
};

struct FreeSource {
  void operator()(zip_source_t* source) const { zip_source_free(source); }
};
struct CloseFile {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
using Source = std::unique_ptr<zip_source_t, FreeSource>;

// Deflate cannot do better than 1032 to 1, so a size beyond that is a lie told to exhaust memory.
bool size_is_plausible(const zip_stat_t& stat) {
  constexpr zip_uint64_t k_best_ratio = 1032;
  if (stat.comp_method == ZIP_CM_STORE) {
    return stat.size == stat.comp_size;
  }
  return stat.size / k_best_ratio <= stat.comp_size;
}

void check_stat(const zip_stat_t& stat, std::size_t archive_bytes, std::string_view name) {
  constexpr zip_uint64_t k_needed =
      ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if ((stat.valid & k_needed) != k_needed || stat.encryption_method != ZIP_EM_NONE) {
    fail_to_read(name,
                 fmt::format("{} is encrypted or its directory entry incomplete: expected a plain "
                             "archive",
                             quoted_word(stat.name)));
  }
  if (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE) {
    fail_to_read(name, fmt::format("{} uses compression method {}: expected stored or deflated",
                                   quoted_word(stat.name), stat.comp_method));
  }
  if (stat.comp_size > archive_bytes || !size_is_plausible(stat)) {
    fail_to_read(
        name, fmt::format("{} claims {} bytes out of {}: the archive of {} bytes cannot hold that",
                          quoted_word(stat.name), stat.size, stat.comp_size, archive_bytes));
  }
  if (stat.size > static_cast<zip_uint64_t>(memory_bytes())) {
    fail_to_read(name, fmt::format("{} has {} bytes: this machine has {} of memory",
                                   quoted_word(stat.name), stat.size, memory_bytes()));
  }
}

// Grows as data arrives: a size that is plausible but wrong costs no more than what is there.
std::vector<std::byte> read_all(zip_file_t* file, zip_uint64_t size, std::string_view name,
                                const ZipArchive::CheckHead& check) {
  constexpr std::size_t k_chunk = ZipArchive::k_head_bytes;
  std::vector<std::byte> contents;
  bool is_checked = !check;
  while (contents.size() < size) {
    const std::size_t have = contents.size();
    if (!is_checked && have >= k_chunk) {
      check(contents, size);
      is_checked = true;
    }
    const zip_uint64_t most = is_checked ? std::max(k_chunk, have) : k_chunk - have;
    const zip_uint64_t want = std::min<zip_uint64_t>(size - have, most);
    contents.resize(have + want);
    const zip_int64_t got = zip_fread(file, contents.data() + have, want);
    if (got < 0) {
      fail_to_read(name, fmt::format("cannot decompress: {}", zip_file_strerror(file)));
    }
    contents.resize(have + static_cast<std::size_t>(got));
    if (got == 0) {
      fail_to_read(name, fmt::format("the data ends after {} of {} bytes", contents.size(), size));
    }
  }
  // One more read makes libzip reach the end and compare the checksum.
  std::byte beyond{};
  const zip_int64_t rest = zip_fread(file, &beyond, 1);
  if (rest != 0) {
    fail_to_read(name, rest < 0 ? fmt::format("cannot decompress: {}", zip_file_strerror(file))
                                : fmt::format("the data goes on after {} bytes", size));
  }
  if (!is_checked) check(contents, size);
  return contents;
}

void add_member(zip_t* zip, const ZipMember& member, bool compress, std::string_view name) {
  // The epoch of zip's own clock, 1980-01-01: archives must not differ by when they were written.
  constexpr zip_uint16_t k_date = (1U << 5U) | 1U;
  Source source(zip_source_buffer(zip, member.contents.data(), member.contents.size(), 0));
  const zip_int64_t index =
      source == nullptr ? -1
                        : zip_file_add(zip, member.name.c_str(), source.get(), ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    fail_to_read(name,
                 fmt::format("cannot add {}: {}", quoted_word(member.name), zip_strerror(zip)));
  }
  static_cast<void>(source.release());  // the archive owns it now
  const auto at = static_cast<zip_uint64_t>(index);
  if (zip_set_file_compression(zip, at, compress ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0) != 0 ||
      zip_file_set_dostime(zip, at, 0, k_date, 0) != 0) {
    fail_to_read(name,
                 fmt::format("cannot add {}: {}", quoted_word(member.name), zip_strerror(zip)));
  }
}

std::vector<std::byte> read_source(zip_source_t* source, std::string_view name) {
  zip_stat_t stat;
  zip_stat_init(&stat);
  if (zip_source_stat(source, &stat) != 0 || zip_source_open(source) != 0) {
    fail_to_read(name, fmt::format("cannot read the archive back: {}",
                                   zip_error_strerror(zip_source_error(source))));
  }
  std::vector<std::byte> bytes(stat.size);
  const zip_int64_t got = zip_source_read(source, bytes.data(), bytes.size());
  zip_source_close(source);
  if (got < 0 || static_cast<zip_uint64_t>(got) != stat.size) {
    fail_to_read(name, fmt::format("read {} of the archive's {} bytes back", got, stat.size));
  }
  return bytes;
}

}  // namespace

ZipArchive::ZipArchive(Bytes bytes, std::string_view name)
    : name_(name), archive_bytes_(bytes.size()) {
  ZipError error;
  Source source(zip_source_buffer_create(bytes.data(), bytes.size(), 0, error.get()));
  if (source != nullptr) {
    zip_.reset(zip_open_from_source(source.get(), ZIP_RDONLY, error.get()));
  }
  if (zip_ == nullptr) {
    fail_to_read(name_, fmt::format("not a zip archive (.npz is one): {}", error.text()));
  }
  static_cast<void>(source.release());  // the archive owns it now
  const zip_int64_t count = zip_get_num_entries(zip_.get(), 0);
  for (zip_int64_t index = 0; index < count; ++index) {
    const char* file = zip_get_name(zip_.get(), static_cast<zip_uint64_t>(index), 0);
    if (file == nullptr) {
      fail_to_read(name_, fmt::format("file {} of the archive has no name", index));
    }
    names_.emplace_back(file);
  }
}

bool ZipArchive::contains(std::string_view file) const {
  return std::find(names_.begin(), names_.end(), file) != names_.end();
}

std::vector<std::byte> ZipArchive::read(std::string_view file, const CheckHead& check) const {
  const auto found = std::find(names_.begin(), names_.end(), file);
  if (found == names_.end()) {
    fail_to_read(name_, fmt::format("the archive has no file {}", quoted_word(file)));
  }
  const auto index = static_cast<zip_uint64_t>(found - names_.begin());
  zip_stat_t stat;
  zip_stat_init(&stat);
  if (zip_stat_index(zip_.get(), index, 0, &stat) != 0) {
    fail_to_read(name_, fmt::format("{}: {}", quoted_word(file), zip_strerror(zip_.get())));
  }
  check_stat(stat, archive_bytes_, name_);
  const std::unique_ptr<zip_file_t, CloseFile> open(zip_fopen_index(zip_.get(), index, 0));
  if (open == nullptr) {
    fail_to_read(name_, fmt::format("{}: {}", quoted_word(file), zip_strerror(zip_.get())));
  }
  return read_all(open.get(), stat.size, fmt::format("{}: {}", name_, quoted_word(file)), check);
}

std::vector<std::byte> make_zip(const std::vector<ZipMember>& members, bool compress,
                                std::string_view name) {
  ZipError error;
  const Source buffer(zip_source_buffer_create(nullptr, 0, 0, error.get()));
  if (buffer == nullptr) {
    fail_to_read(name, fmt::format("cannot make a zip archive: {}", error.text()));
  }
  zip_source_keep(buffer.get());  // a second reference, which the archive takes over
  ZipHandle zip(zip_open_from_source(buffer.get(), ZIP_TRUNCATE, error.get()));
  if (zip == nullptr) {
    zip_source_free(buffer.get());
    fail_to_read(name, fmt::format("cannot make a zip archive: {}", error.text()));
  }
  for (const ZipMember& member : members) {
    add_member(zip.get(), member, compress, name);
  }
  if (zip_close(zip.get()) != 0) {
    fail_to_read(name, fmt::format("cannot compress: {}", zip_strerror(zip.get())));
  }
  static_cast<void>(zip.release());  // closing freed it
  return read_source(buffer.get(), name);
}

}  // namespace spjit

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <utility>

#include "base/hash.hpp"
#include "cache_archive.hpp"
#include "spjit/error.hpp"
#include "terminal.hpp"

namespace spjit::cli {
namespace {

constexpr std::size_t k_block_bytes = std::size_t{64} << 10;
constexpr std::int64_t k_end_mark_bytes = 1024;  // two blocks of zeros
constexpr std::size_t k_longest_reason = 1000;
// The first member of archives that were made before a kernel's record.json was enough.
constexpr std::string_view k_old_manifest = "spjit-cache.json";

[[noreturn]] void refuse(const std::string& member, const std::string& reason) {
  throw IoError(fmt::format("member '{}' {}", printable(member), reason));
}

/// A kernel of which not all was read yet.
struct PartialKernel {
  std::string key;                                                   // empty: there is none
  std::map<std::string, std::vector<std::byte>, std::less<>> files;  // record.json too
  std::int64_t bytes = 0;
  std::optional<CacheRecord> record;

  [[nodiscard]] std::string path(std::string_view file) const {
    return fmt::format("{}/{}", key, file);
  }
};

class ArchiveReader {
 public:
  ArchiveReader(const ReadBytes& read, const ArchiveLimits& limits, const TakeKernel& take)
      : read_(read), limits_(limits), take_(take), archive_(archive_read_new(), archive_read_free) {
    if (!archive_) throw std::bad_alloc();
    // Of all formats and compressions that libarchive knows, only this one, to the end of the file.
    archive_read_support_format_tar(archive_.get());
    const int option =
        archive_read_set_option(archive_.get(), "tar", "read_concatenated_archives", "1");
    if (option != ARCHIVE_OK ||
        archive_read_open(archive_.get(), this, nullptr, next_block, nullptr) != ARCHIVE_OK) {
      fail();
    }
  }

  void run() {
    archive_entry* entry = nullptr;
    int status = ARCHIVE_OK;
    bool first = true;
    while ((status = archive_read_next_header(archive_.get(), &entry)) == ARCHIVE_OK) {
      const char* path = archive_entry_pathname(entry);
      add(path == nullptr ? "" : path, entry, std::exchange(first, false));
    }
    // Warnings too: nothing here is to be guessed.
    if (status != ARCHIVE_EOF) fail();
    if (given_bytes_ - archive_read_header_position(archive_.get()) < k_end_mark_bytes) {
      throw IoError("ends without tar's end mark: it was cut short");
    }
    require_no_partial();
  }

 private:
  static la_ssize_t next_block(archive* reader, void* self, const void** buffer) {
    auto& into = *static_cast<ArchiveReader*>(self);
    try {
      *buffer = into.block_.data();
      const std::size_t got = into.read_(into.block_);
      into.given_bytes_ += static_cast<std::int64_t>(got);
      if (into.given_bytes_ <= into.limits_.archive_bytes) return static_cast<la_ssize_t>(got);
      throw IoError(
          fmt::format("has over {} bytes, the most that are read", into.limits_.archive_bytes));
    } catch (...) {
      into.failure_ = std::current_exception();  // must not pass through libarchive, which is C
      archive_set_error(reader, EIO, "cannot be read");
      return ARCHIVE_FATAL;
    }
  }

  [[noreturn]] void fail() const {
    if (failure_) std::rethrow_exception(failure_);
    const char* text = archive_error_string(archive_.get());
    throw IoError(fmt::format("is no tar archive, or a damaged one: {}",
                              printable(text == nullptr ? "no reason given" : text)));
  }

  void add(const std::string& path, archive_entry* entry, bool first) {
    const bool is_directory = archive_entry_filetype(entry) == AE_IFDIR;
    if (archive_entry_hardlink(entry) != nullptr ||
        (!is_directory && archive_entry_filetype(entry) != AE_IFREG)) {
      refuse(path, "is a link, a device or a FIFO, expected a plain file");
    }
    if (first && path == k_old_manifest) return;
    const std::size_t slash = std::min(path.find('/'), path.size());
    const std::string key = path.substr(0, slash);
    const std::string file = path.substr(std::min(slash + 1, path.size()));
    const bool names_file = is_cache_file_name(file) || file == k_record_file_name;
    // Nothing else is a path here, so none can lead elsewhere.
    if (!is_cache_key(key) || (is_directory ? !file.empty() : !names_file)) {
      refuse(path, "is nothing that a cache holds, expected KEY/FILE");
    }
    if (given_.contains(key)) {
      refuse(path, "is there twice, or is not in the record.json of its kernel");
    }
    if (kernel_.key != key) require_no_partial();
    kernel_.key = key;
    if (!is_directory) add_file(file, archive_entry_size(entry));
  }

  void add_file(const std::string& file, std::int64_t bytes) {
    const bool is_record = file == k_record_file_name;
    const std::int64_t rest = limits_.entry_bytes - kernel_.bytes;
    const std::int64_t most = is_record ? std::min(limits_.record_bytes, rest) : rest;
    if (bytes < 0 || bytes > most || kernel_.files.size() >= limits_.entry_files) {
      refuse(kernel_.path(file),
             fmt::format("has {} bytes, expected at most {}: a kernel may have {}, in {} files",
                         bytes, most, limits_.entry_bytes, limits_.entry_files));
    }
    const auto [place, is_new] = kernel_.files.try_emplace(file);
    if (!is_new) refuse(kernel_.path(file), "is there twice");
    place->second = content(file, static_cast<std::size_t>(bytes));
    kernel_.bytes += bytes;
    if (is_record) kernel_.record = parse_record(place->second);
    if (kernel_.record && kernel_.files.size() > kernel_.record->files.size()) give();
  }

  /// Memory is used for what the archive really has, not for what a header claims.
  [[nodiscard]] std::vector<std::byte> content(const std::string& file, std::size_t bytes) const {
    std::vector<std::byte> content;
    const void* data = nullptr;
    std::size_t size = 0;
    la_int64_t offset = 0;
    int status = ARCHIVE_OK;
    while ((status = archive_read_data_block(archive_.get(), &data, &size, &offset)) ==
           ARCHIVE_OK) {
      if (std::cmp_not_equal(offset, content.size()) || size > bytes - content.size()) break;
      const auto* begin = static_cast<const std::byte*>(data);
      content.insert(content.end(), begin, begin + size);
    }
    if (status != ARCHIVE_OK && status != ARCHIVE_EOF) fail();
    if (content.size() == bytes) return content;
    refuse(kernel_.path(file), "is sparse, expected a plain file");
  }

  [[nodiscard]] CacheRecord parse_record(std::span<const std::byte> text) const {
    try {
      CacheRecord record =
          parse_cache_record({reinterpret_cast<const char*>(text.data()), text.size()});
      if (record.key != kernel_.key) throw CacheError("it is of another key");
      return record;
    } catch (const CacheError& error) {
      refuse(kernel_.path(k_record_file_name), fmt::format("is damaged: {}", error.what()));
    }
  }

  /// As many files as are listed were read. If each of them is listed, none is missing.
  void give() {
    const std::vector<CacheFileRecord>& listed = kernel_.record->files;
    for (const auto& [name, content] : kernel_.files) {
      if (name == k_record_file_name) continue;
      const auto expected = std::ranges::find(listed, name, &CacheFileRecord::name);
      if (expected == listed.end()) refuse(kernel_.path(name), "is not in record.json");
      if (std::cmp_not_equal(content.size(), expected->bytes)) {
        refuse(kernel_.path(name),
               fmt::format("has {} bytes, record.json says {}", content.size(), expected->bytes));
      }
      if (checksum_hex(content) != expected->checksum) {
        refuse(kernel_.path(name), "does not match its checksum");
      }
    }
    std::vector<CacheFile> files;
    files.reserve(listed.size());
    for (const CacheFileRecord& file : listed) {
      files.push_back({.name = file.name, .bytes = kernel_.files.find(file.name)->second});
    }
    take_(*kernel_.record, files);
    given_.insert(kernel_.key);
    kernel_ = {};
  }

  void require_no_partial() const {
    if (kernel_.key.empty()) return;
    std::string missing(k_record_file_name);
    if (kernel_.record) {
      for (const CacheFileRecord& listed : kernel_.record->files) {
        if (!kernel_.files.contains(listed.name)) missing = listed.name;
      }
    }
    refuse(kernel_.path(missing), "is missing: all files of a kernel must follow each other");
  }

  const ReadBytes& read_;
  const ArchiveLimits& limits_;
  const TakeKernel& take_;
  std::vector<std::byte> block_ = std::vector<std::byte>(k_block_bytes);
  std::int64_t given_bytes_ = 0;
  std::exception_ptr failure_;
  PartialKernel kernel_;
  std::set<std::string> given_;  // keys
  std::unique_ptr<archive, decltype(&archive_read_free)> archive_;
};

}  // namespace

void read_archive(const std::string& name, const ReadBytes& read, const ArchiveLimits& limits,
                  const TakeKernel& take) {
  try {
    ArchiveReader(read, limits, take).run();
  } catch (const Error& error) {
    throw IoError(fmt::format("{}: {}", name, printable(error.what(), k_longest_reason)));
  }
}

ArchiveImport import_cache(const CacheStore& store, const std::string& name, const ReadBytes& read,
                           const ArchiveLimits& limits) {
  ArchiveImport result;
  const auto publish = [&](const CacheRecord& record, std::span<const CacheFile> files) {
    if (record.spjit_version != store.spjit_version()) {
      ++result.other_versions;
    } else if (store.publish(record.key, files, record.kernel) == PublishResult::published) {
      ++result.imported;
      for (const CacheFileRecord& file : record.files) result.bytes += file.bytes;
    } else {
      ++result.already_there;
    }
  };
  try {
    read_archive(name, read, limits, publish);
  } catch (const IoError& error) {
    throw IoError(
        fmt::format("{}; {} kernels were imported before that", error.what(), result.imported));
  }
  return result;
}

}  // namespace spjit::cli

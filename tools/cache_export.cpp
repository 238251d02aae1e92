#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <utility>

#include "base/hash.hpp"
#include "cache_archive.hpp"
#include "spjit/error.hpp"

namespace spjit::cli {
namespace {

constexpr int k_private_file = 0600;

using Tar = std::unique_ptr<archive, decltype(&archive_write_free)>;
using TarMember = std::unique_ptr<archive_entry, decltype(&archive_entry_free)>;

void require(bool success, const Tar& tar) {
  if (success) return;
  const char* text = archive_error_string(tar.get());
  throw IoError(fmt::format("cannot make a tar archive of the kernels: {}",
                            text == nullptr ? "no reason given" : text));
}

la_ssize_t append(archive* writer, void* made, const void* buffer, std::size_t length) {
  const auto* bytes = static_cast<const std::byte*>(buffer);
  auto& all = *static_cast<std::vector<std::byte>*>(made);
  try {
    all.insert(all.end(), bytes, bytes + length);
    return static_cast<la_ssize_t>(length);
  } catch (const std::bad_alloc&) {  // must not pass through libarchive, which is C
    archive_set_error(writer, ENOMEM, "out of memory");
    return ARCHIVE_FATAL;
  }
}

/// ustar, the oldest format that every tar reads, at the end of `made`: of what is not finished,
/// the end mark too.
Tar open_tar(std::vector<std::byte>& made) {
  Tar tar(archive_write_new(), archive_write_free);
  if (!tar) throw std::bad_alloc();
  archive_write_set_format_ustar(tar.get());
  require(archive_write_open(tar.get(), &made, nullptr, append, nullptr) == ARCHIVE_OK, tar);
  return tar;
}

/// A plain file of mode 0600, owned by nobody in particular, of 1970.
void add(const Tar& tar, const std::string& path, std::span<const std::byte> bytes) {
  const TarMember member(archive_entry_new(), archive_entry_free);
  if (!member) throw std::bad_alloc();
  archive_entry_set_pathname(member.get(), path.c_str());
  archive_entry_set_filetype(member.get(), AE_IFREG);
  archive_entry_set_perm(member.get(), k_private_file);
  archive_entry_set_mtime(member.get(), 0, 0);
  archive_entry_set_size(member.get(), static_cast<la_int64_t>(bytes.size()));
  require(archive_write_header(tar.get(), member.get()) == ARCHIVE_OK, tar);
  const la_ssize_t written = archive_write_data(tar.get(), bytes.data(), bytes.size());
  require(std::cmp_equal(written, bytes.size()), tar);
}

}  // namespace

ArchiveExport export_cache(const CacheStore& store, std::vector<std::string> keys,
                           const WriteBytes& write) {
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  ArchiveExport result;
  std::vector<std::byte> made;  // lives longer than what writes to it
  const Tar tar = open_tar(made);
  const auto pass_on = [&] {
    write(made);
    result.bytes += static_cast<std::int64_t>(made.size());
    made.clear();
  };
  for (const std::string& key : keys) {
    CacheEntry entry;
    try {
      entry = store.read(key);
    } catch (const CacheError& error) {
      result.left_out.push_back({.key = key, .problem = error.what()});
      continue;
    }
    for (const CacheFileRecord& file : entry.record.files) {
      add(tar, fmt::format("{}/{}", key, file.name), entry.file(file.name));
    }
    const std::string record = write_cache_record(entry.record);
    add(tar, fmt::format("{}/{}", key, k_record_file_name), std::as_bytes(std::span(record)));
    pass_on();
    ++result.entries;
  }
  if (result.entries > 0 || result.left_out.empty()) {
    require(archive_write_close(tar.get()) == ARCHIVE_OK, tar);
    pass_on();
  }
  return result;
}

}  // namespace spjit::cli

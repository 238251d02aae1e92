#include "tests/fuzz/archive_checks.hpp"

#include "base/hash.hpp"
#include "tools/archive_reader.hpp"

namespace spjit::fuzz {
namespace {

void check_kernel(const CacheRecord& record, std::span<const CacheFile> files) {
  expect(is_cache_key(record.key), "a key that no cache has");
  expect(files.size() == record.files.size(), "other files than the record lists");
  for (std::size_t i = 0; i < files.size(); ++i) {
    const CacheFileRecord& listed = record.files[i];
    expect(files[i].name == listed.name && is_cache_file_name(listed.name),
           "a file of a name that is not allowed");
    expect(static_cast<std::int64_t>(files[i].bytes.size()) == listed.bytes &&
               checksum_hex(files[i].bytes) == listed.checksum,
           "a file that does not match its checksum");
  }
}

}  // namespace

void check_archive(Bytes archive) {
  // JSON takes most; libarchive and the reader hold blocks of 64 KiB, libarchive names of up to 1
  // MiB.
  constexpr std::size_t k_per_byte = 128;
  constexpr std::size_t k_fixed = std::size_t{2} << 20;
  std::size_t given = 0;
  const auto read = [&] {
    cli::read_archive("k.tar", cli::bytes_in_memory(archive), {},
                      [&](const CacheRecord& record, std::span<const CacheFile> files) {
                        check_kernel(record, files);
                        for (const CacheFile& file : files) given += file.bytes.size();
                      });
    return true;
  };
  read_within(k_per_byte * archive.size() + k_fixed, {.name = "k.tar"}, read);
  expect(given <= archive.size(), "more bytes than the archive has");
}

}  // namespace spjit::fuzz

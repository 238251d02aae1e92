// Archives of kernels, as `spjit cache import` takes them. The input is a tar file, or, behind
// tar's checksums, says which members there are, and an archive is made of them:
//
//     input = member*
//     member = path, length, content         ; path: a byte, an index of k_paths; length: 2 bytes
//
// A record.json without content becomes the one that fits the kernel's other files.

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "tests/fuzz/fuzz_support.hpp"
#include "tests/support/tar_testing.hpp"
#include "tools/cache_archive.hpp"

namespace spjit::fuzz {
namespace {

using testing_support::TarFile;

constexpr std::string_view k_tar_magic = "ustar";
constexpr std::size_t k_tar_magic_at = 257;
constexpr std::array<char, 2> k_key_digits = {'1', 'f'};
// # stands for a key of the first digit, % for one of the second.
constexpr std::array<std::string_view, 10> k_paths = {
    "spjit-cache.json", "#/record.json", "#/kernel.o", "#/weights.bin",
    "%/record.json",    "%/kernel.o",    "#/",         "../#/x",
    "/%/kernel.o",      "#/.hidden"};

std::string key_of(char digit) { return std::string(64, digit); }

std::string path_of(std::size_t index) {
  std::string path(k_paths[index % k_paths.size()]);
  const std::size_t mark = path.find_first_of("#%");
  if (mark == std::string::npos) return path;
  return path.replace(mark, 1, key_of(path[mark] == '#' ? k_key_digits[0] : k_key_digits[1]));
}

std::vector<TarFile> members_of(Bytes input) {
  constexpr std::size_t k_head = 3;
  std::vector<TarFile> members;
  while (input.size() >= k_head) {
    const std::size_t length =
        std::to_integer<std::size_t>(input[1]) + (std::to_integer<std::size_t>(input[2]) << 8U);
    const Bytes content = input.subspan(k_head, std::min(length, input.size() - k_head));
    TarFile& member = members.emplace_back();
    member.path = path_of(std::to_integer<std::size_t>(input[0]));
    member.content = as_text(content);
    if (member.path.ends_with('/')) member.type = '5';
    input = input.subspan(k_head + content.size());
  }
  return members;
}

// The record.json of a key, with what the members say first.
std::string record_of(const std::string& key, const std::vector<TarFile>& members) {
  CacheRecord record = {.spjit_version = "0.1.0",
                        .key = key,
                        .created = "2026-01-31T23:59:59Z",
                        .files = {},
                        .kernel = {{"tile", {28, 16}}}};
  for (const TarFile& member : members) {
    if (!member.path.starts_with(key)) continue;
    const std::string name = member.path.substr(key.size() + 1);
    if (!is_cache_file_name(name) ||
        std::ranges::find(record.files, name, &CacheFileRecord::name) != record.files.end()) {
      continue;
    }
    record.files.push_back({.name = name,
                            .bytes = static_cast<std::int64_t>(member.content.size()),
                            .checksum = checksum_hex(std::as_bytes(std::span(member.content)))});
  }
  return write_cache_record(record);
}

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

// No more memory than a multiple of the archive. Each kernel that is given has a key and file names
// that a cache allows, and the files that its record lists, from the archive.
void check_archive(Bytes archive) {
  // JSON takes most; libarchive and the reader hold blocks of 64 KiB, libarchive names of up to 1
  // MiB.
  constexpr std::size_t k_per_byte = 128;
  constexpr std::size_t k_fixed = std::size_t{2} << 20;
  std::size_t given = 0;
  const auto read = [&] {
    cli::read_archive("k.tar", testing_support::reading(archive), {},
                      [&](const CacheRecord& record, std::span<const CacheFile> files) {
                        check_kernel(record, files);
                        for (const CacheFile& file : files) given += file.bytes.size();
                      });
    return true;
  };
  read_within(k_per_byte * archive.size() + k_fixed, {.name = "k.tar"}, read);
  expect(given <= archive.size(), "more bytes than the archive has");
}

void run(Bytes input) {
  if (input.size() > k_tar_magic_at &&
      as_text(input.subspan(k_tar_magic_at)).starts_with(k_tar_magic)) {
    check_archive(input);
    return;
  }
  std::vector<TarFile> members = members_of(input);
  for (TarFile& member : members) {
    const std::string key = member.path.substr(0, member.path.find('/'));
    if (member.path == key + "/record.json" && member.content.empty()) {
      member.content = record_of(key, members);
    }
  }
  const std::string tar = testing_support::tar_of(members);
  check_archive(std::as_bytes(std::span(tar)));
}

}  // namespace
}  // namespace spjit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spjit::fuzz::run(spjit::fuzz::as_bytes(data, size));
  return 0;
}

// Archives of kernels behind tar's checksums and the manifest's: the input says which members there
// are, and an archive is made of them.
//
//     input = member*
//     member = path, length, content         ; path: a byte, an index of k_paths; length: 2 bytes
//
// Where no member of that path is first, a manifest comes first that lists the others with their
// checksums. A record.json without content becomes the one that fits the kernel's other files.

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "tests/fuzz/archive_checks.hpp"
#include "tests/support/tar_testing.hpp"
#include "tools/archive_manifest.hpp"

namespace spjit::fuzz {
namespace {

using testing_support::TarFile;

constexpr std::string_view k_version = "0.1.0";
constexpr std::array<char, 2> k_key_digits = {'1', 'f'};
// # stands for a key of the first digit, % for one of the second.
constexpr std::array<std::string_view, 10> k_paths = {
    cli::k_manifest_name, "#/record.json", "#/kernel.o", "#/weights.bin",
    "%/record.json",      "%/kernel.o",    "#/",         "../#/x",
    "/%/kernel.o",        "#/.hidden"};

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

CacheFileRecord file_record(std::string name, const std::string& content) {
  return {.name = std::move(name),
          .bytes = static_cast<std::int64_t>(content.size()),
          .checksum = checksum_hex(std::as_bytes(std::span(content)))};
}

// The kernel of a key, with what the members say first; its record.json is made if it is empty.
std::optional<cli::ArchiveEntry> entry_of(const std::string& key, std::vector<TarFile>& members) {
  cli::ArchiveEntry entry;
  entry.key = key;
  entry.spjit_version = k_version;
  TarFile* record = nullptr;
  for (TarFile& member : members) {
    if (!member.path.starts_with(key)) continue;
    const std::string name = member.path.substr(key.size() + 1);
    if (name == k_record_file_name) {
      record = record == nullptr ? &member : record;
    } else if (is_cache_file_name(name) &&
               std::ranges::find(entry.files, name, &CacheFileRecord::name) == entry.files.end()) {
      entry.files.push_back(file_record(name, member.content));
    }
  }
  if (record == nullptr) return std::nullopt;
  if (record->content.empty()) {
    record->content = write_cache_record({.spjit_version = std::string(k_version),
                                          .key = key,
                                          .created = "2026-01-31T23:59:59Z",
                                          .files = entry.files,
                                          .kernel = {{"tile", {28, 16}}}});
  }
  entry.record = file_record(std::string(k_record_file_name), record->content);
  return entry;
}

void run(Bytes input) {
  std::vector<TarFile> members = members_of(input);
  if (members.empty()) return;
  if (members.front().path != cli::k_manifest_name) {
    cli::ArchiveManifest manifest;
    manifest.spjit_version = k_version;
    for (const char digit : k_key_digits) {
      if (auto entry = entry_of(key_of(digit), members)) manifest.entries.push_back(*entry);
    }
    members.insert(members.begin(), {.path = std::string(cli::k_manifest_name),
                                     .content = cli::write_manifest(manifest)});
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

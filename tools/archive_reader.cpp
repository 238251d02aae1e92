#include "archive_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/hash.hpp"
#include "spjit/error.hpp"
#include "terminal.hpp"

namespace spjit::cli {
namespace {

constexpr std::size_t k_longest_reason = 1000;

[[noreturn]] void refuse(const std::string& member, const std::string& reason) {
  throw IoError(fmt::format("member '{}' {}", printable(member), reason));
}

/// KEY/FILE or KEY/.
struct MemberName {
  std::string key;
  std::string file;
};

MemberName parse_name(const TarMember& member) {
  const std::string_view path = member.path;
  if (path.starts_with('/')) refuse(member.path, "has an absolute path, expected KEY/FILE");
  if (path.starts_with("..") || path.find("/..") != std::string_view::npos) {
    refuse(member.path, "leads out of its directory, expected KEY/FILE");
  }
  const std::size_t slash = path.find('/');
  MemberName name{
      .key = std::string(path.substr(0, slash)),
      .file = slash == std::string_view::npos ? "" : std::string(path.substr(slash + 1))};
  const bool names_file = is_cache_file_name(name.file) || name.file == k_record_file_name;
  const bool fits = member.is_directory ? name.file.empty() : names_file;
  if (!is_cache_key(name.key) || !fits) {
    refuse(member.path, "is nothing that a cache holds, expected KEY/FILE");
  }
  return name;
}

/// A kernel of which not all was read yet.
struct PartialEntry {
  const ArchiveEntry* listed = nullptr;
  std::optional<std::vector<std::byte>> record;
  std::map<std::string, std::vector<std::byte>, std::less<>> files;

  [[nodiscard]] bool complete() const { return record && files.size() == listed->files.size(); }

  /// A file that it lacks.
  [[nodiscard]] std::string_view missing() const {
    for (const CacheFileRecord& file : listed->files) {
      if (!files.contains(file.name)) return file.name;
    }
    return k_record_file_name;
  }
};

class ArchiveReader {
 public:
  ArchiveReader(const ArchiveLimits& limits, const TakeKernel& take)
      : limits_(limits), take_(take) {}

  void run(TarReader& tar) {
    read_manifest(tar);
    while (const std::optional<TarMember> member = tar.next()) add(*member, tar);
    if (partial_) refuse_partial();
    for (const auto& [key, entry] : awaited_) {
      refuse(fmt::format("{}/{}", key, k_record_file_name), "is missing");
    }
  }

 private:
  void read_manifest(TarReader& tar) {
    const std::optional<TarMember> member = tar.next();
    if (!member || member->path != k_manifest_name || member->is_directory) {
      throw IoError(fmt::format("does not begin with '{}': no archive of 'spjit cache export'",
                                k_manifest_name));
    }
    if (member->bytes > k_largest_json_bytes) {
      refuse(member->path,
             fmt::format("has {} bytes, expected at most {}", member->bytes, k_largest_json_bytes));
    }
    const std::vector<std::byte> content = tar.content();
    try {
      manifest_ =
          parse_manifest({reinterpret_cast<const char*>(content.data()), content.size()}, limits_);
    } catch (const CacheError& error) {
      refuse(member->path, fmt::format("cannot be used: {}", error.what()));
    }
    for (const ArchiveEntry& entry : manifest_.entries) awaited_.emplace(entry.key, &entry);
  }

  void add(const TarMember& member, TarReader& tar) {
    const MemberName name = parse_name(member);
    if (!seen_.insert(member.path).second) refuse(member.path, "is there twice");
    const ArchiveEntry& entry = find_entry(member, name.key);
    if (member.is_directory) return;
    const CacheFileRecord& expected = find_file(member, name.file, entry);
    if (member.bytes != expected.bytes) {
      refuse(member.path,
             fmt::format("has {} bytes, the manifest says {}", member.bytes, expected.bytes));
    }
    if (partial_ && partial_->listed != &entry) refuse_partial();
    if (!partial_) partial_.emplace().listed = &entry;
    std::vector<std::byte> content = tar.content();
    if (checksum_hex(content) != expected.checksum) {
      refuse(member.path, "does not match its checksum");
    }
    if (name.file == k_record_file_name) {
      partial_->record = std::move(content);
    } else {
      partial_->files.emplace(name.file, std::move(content));
    }
    if (partial_->complete()) give();
  }

  // Of the manifest: what it does not name is not looked at.
  [[nodiscard]] const ArchiveEntry& find_entry(const TarMember& member,
                                               const std::string& key) const {
    if (partial_ && partial_->listed->key == key) return *partial_->listed;
    const auto found = awaited_.find(key);
    if (found == awaited_.end()) refuse(member.path, "is not in the manifest");
    return *found->second;
  }

  static const CacheFileRecord& find_file(const TarMember& member, const std::string& name,
                                          const ArchiveEntry& entry) {
    if (name == k_record_file_name) return entry.record;
    const auto found = std::ranges::find(entry.files, name, &CacheFileRecord::name);
    if (found == entry.files.end()) refuse(member.path, "is not in the manifest");
    return *found;
  }

  [[noreturn]] void refuse_partial() const {
    refuse(fmt::format("{}/{}", partial_->listed->key, partial_->missing()),
           "is missing: all files of a kernel must follow each other");
  }

  [[nodiscard]] CacheRecord parse_record() const {
    const ArchiveEntry& listed = *partial_->listed;
    const std::string path = fmt::format("{}/{}", listed.key, k_record_file_name);
    try {
      CacheRecord record = parse_cache_record(
          {reinterpret_cast<const char*>(partial_->record->data()), partial_->record->size()});
      if (record.key != listed.key) refuse(path, "is of another key");
      if (record.files != listed.files) refuse(path, "lists other files than the manifest");
      if (record.spjit_version != listed.spjit_version) {
        refuse(path, "is of another version of spjit than the manifest says");
      }
      return record;
    } catch (const CacheError& error) {
      refuse(path, fmt::format("is damaged: {}", error.what()));
    }
  }

  void give() {
    const CacheRecord record = parse_record();
    std::vector<CacheFile> files;
    for (const CacheFileRecord& file : record.files) {
      files.push_back({.name = file.name, .bytes = partial_->files.find(file.name)->second});
    }
    take_(record, files);
    awaited_.erase(record.key);
    partial_.reset();
  }

  ArchiveLimits limits_;
  const TakeKernel& take_;
  ArchiveManifest manifest_;
  std::map<std::string, const ArchiveEntry*, std::less<>> awaited_;
  std::set<std::string> seen_;
  std::optional<PartialEntry> partial_;
};

}  // namespace

void read_archive(const std::string& name, ReadBytes read, const ArchiveLimits& limits,
                  const TakeKernel& take) {
  ArchiveReader reader(limits, take);
  try {
    TarReader tar(std::move(read), limits.archive_bytes);
    reader.run(tar);
  } catch (const Error& error) {
    throw IoError(fmt::format("{}: {}", name, printable(error.what(), k_longest_reason)));
  }
}

ReadBytes bytes_in_memory(std::span<const std::byte> bytes) {
  return [rest = bytes](std::span<std::byte> into) mutable {
    const std::size_t count = std::min(into.size(), rest.size());
    std::copy_n(rest.begin(), count, into.begin());
    rest = rest.subspan(count);
    return count;
  };
}

}  // namespace spjit::cli

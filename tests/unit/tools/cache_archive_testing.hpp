#pragma once

/// @file
/// Two caches and what goes from one to the other in an archive.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "spjit/error.hpp"
#include "tests/support/spmm_testing.hpp"
#include "tests/support/tar_testing.hpp"
#include "tools/cache_archive.hpp"

namespace spjit::cli::testing_support {

namespace fs = std::filesystem;
using spjit::testing_support::bytes_of;
using spjit::testing_support::reading;
using spjit::testing_support::TarFile;
using spjit::testing_support::TemporaryDirectory;

inline const std::string k_first(64, '1');
inline const std::string k_second(64, '2');

inline CacheFileRecord describe(const std::string& name, const std::string& content) {
  return {.name = name,
          .bytes = static_cast<std::int64_t>(content.size()),
          .checksum = checksum_hex(bytes_of(content))};
}

/// The members of a kernel: the files, then the record.json that lists them.
inline std::vector<TarFile> kernel_of(
    const std::string& key, const std::vector<std::pair<std::string, std::string>>& files) {
  CacheRecord record{.spjit_version = "0.1.0",
                     .key = key,
                     .created = "2025-01-31T23:59:59Z",
                     .files = {},
                     .kernel = {{"tile", 28}}};
  std::vector<TarFile> members;
  for (const auto& [name, content] : files) {
    record.files.push_back(describe(name, content));
    members.push_back({fmt::format("{}/{}", key, name), content});
  }
  members.push_back({key + "/record.json", write_cache_record(record)});
  return members;
}

inline std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The files below a directory, by path in it, with what they hold.
inline std::vector<std::string> tree_of(const fs::path& root) {
  std::vector<std::string> paths;
  if (!fs::exists(root)) return paths;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.is_regular_file()) {
      paths.push_back(fs::relative(entry.path(), root).string() + "=" + content_of(entry.path()));
    }
  }
  std::ranges::sort(paths);
  return paths;
}

class CacheArchiveTest : public testing::Test {
 protected:
  [[nodiscard]] CacheStore source(const std::string& version = "0.1.0") const {
    return {folder_.path() / "source", version};
  }
  [[nodiscard]] CacheStore target() const { return {folder_.path() / "target", "0.1.0"}; }
  [[nodiscard]] fs::path folder() const { return folder_.path(); }

  static void publish(const CacheStore& store, const std::string& key) {
    const std::string code = "code of " + key;
    const std::vector<CacheFile> files = {{.name = "kernel.o", .bytes = bytes_of(code)},
                                          {.name = "empty", .bytes = {}}};
    store.publish(key, files, {{"key", key}, {"tile", {28, 16}}});
  }

  static bool has(const CacheStore& store, const std::string& key) {
    const CacheLookup found = store.lookup(key);
    const std::string code = "code of " + key;
    return found.entry && std::ranges::equal(found.entry->file("kernel.o"), bytes_of(code)) &&
           found.entry->file("empty").empty() &&
           found.entry->record.kernel == nlohmann::json({{"key", key}, {"tile", {28, 16}}});
  }

  /// `result` out, the archive as text.
  static std::pair<ArchiveExport, std::string> exported(const CacheStore& store,
                                                        const std::vector<std::string>& keys) {
    std::string archive;
    const ArchiveExport result = export_cache(store, keys, [&](std::span<const std::byte> bytes) {
      archive.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    });
    return {result, archive};
  }

  [[nodiscard]] ArchiveImport import(const std::string& archive,
                                     const ArchiveLimits& limits = {}) const {
    return import_cache(target(), "k.tar", reading(bytes_of(archive)), limits);
  }

  /// The error of an import; empty if there was none.
  [[nodiscard]] std::string error_of(const std::string& archive,
                                     const ArchiveLimits& limits = {}) const {
    try {
      static_cast<void>(import(archive, limits));
      return "";
    } catch (const IoError& error) {
      return error.what();
    }
  }

  static void damage(const CacheStore& store, const std::string& key) {
    const auto file = store.root() / key.substr(0, 2) / key / "kernel.o";
    spjit::testing_support::make_writable(file);
    std::ofstream(file) << "rotten";
  }

 private:
  TemporaryDirectory folder_;
};

}  // namespace spjit::cli::testing_support

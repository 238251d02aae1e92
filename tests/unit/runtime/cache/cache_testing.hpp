#pragma once

/// @file
/// Helpers of tests of the cache: a cache in a scratch directory, and one kind of entry.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "runtime/cache/cache_store.hpp"
#include "tests/support/files/system_testing.hpp"

namespace spjit::test {

inline const std::vector<std::byte> k_object = to_bytes("machine code");
inline const std::vector<std::byte> k_source = to_bytes("text");

[[nodiscard]] inline std::string key_of(std::int64_t number) {
  return KeyBuilder().field("number", number).hex();
}

[[nodiscard]] inline mode_t mode_of(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return 0;
  return status.st_mode & 07777U;
}

[[nodiscard]] inline std::size_t count_in(const std::filesystem::path& directory) {
  std::error_code error;
  const std::filesystem::directory_iterator begin(directory, error);
  return static_cast<std::size_t>(std::distance(begin, std::filesystem::directory_iterator()));
}

class CacheStoreTest : public testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path root() const { return scratch_.path() / "parent" / "cache"; }
  [[nodiscard]] CacheStore store(const std::string& version = "0.1.0") const {
    return {root(), version};
  }
  [[nodiscard]] std::filesystem::path entry(const std::string& key) const {
    return root() / key.substr(0, 2) / key;
  }

  static PublishResult publish(const CacheStore& cache, const std::string& key) {
    const std::vector<CacheFile> files = {{.name = "kernel.o", .bytes = k_object},
                                          {.name = "source.cpp", .bytes = k_source}};
    return cache.publish(key, files, {{"tile", {28, 16}}});
  }

  /// The entry is right, whoever wrote it.
  static bool is_whole(const CacheLookup& found) {
    return found.entry && std::ranges::equal(found.entry->file("kernel.o"), k_object) &&
           std::ranges::equal(found.entry->file("source.cpp"), k_source) &&
           found.entry->record.kernel == nlohmann::json({{"tile", {28, 16}}});
  }

  /// Makes an entry look as if it was last used so long ago (negative: in the future).
  void age(const std::string& key, std::chrono::seconds ago) const {
    const auto now = std::filesystem::file_time_type::clock::now();
    std::filesystem::last_write_time(entry(key) / "record.json", now - ago);
  }

  /// One byte of its content is another.
  void damage(const std::string& key) const {
    write_bytes(entry(key) / "kernel.o", to_bytes("machine cods"));
  }

 private:
  ScratchDirectory scratch_;
};

}  // namespace spjit::test

#include "tools/commands/cache_bundle.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/hash.hpp"
#include "spjit/error.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

namespace fs = std::filesystem;
using namespace spjit;
using namespace spjit::cli;
using testing::HasSubstr;

const std::string k_first_key(64, '1');
const std::string k_second_key(64, '2');

std::string bundled_text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Two caches and what goes from one to the other in a bundle.
class CacheBundleTest : public testing::Test {
 protected:
  [[nodiscard]] CacheStore source(const std::string& version = "0.1.0") const {
    return {folder_.path() / "source", version};
  }
  [[nodiscard]] CacheStore target() const { return {folder_.path() / "target", "0.1.0"}; }
  [[nodiscard]] fs::path path() const { return folder_.path() / "k.spjit"; }

  static std::vector<std::byte> code_of(const std::string& key) {
    const std::string code = "code of " + key;
    const auto bytes = std::as_bytes(std::span(code));
    return {bytes.begin(), bytes.end()};
  }
  static void publish(const CacheStore& store, const std::string& key) {
    const std::vector<std::byte> code = code_of(key);
    const std::vector<CacheFile> files = {{.name = "kernel.o", .bytes = code},
                                          {.name = "empty", .bytes = {}}};
    store.publish(key, files, {{"key", key}, {"tile", {28, 16}}});
  }
  static bool has(const CacheStore& store, const std::string& key) {
    const CacheLookup found = store.lookup(key);
    return found.entry && std::ranges::equal(found.entry->file("kernel.o"), code_of(key)) &&
           found.entry->file("empty").empty() &&
           found.entry->record.kernel == nlohmann::json({{"key", key}, {"tile", {28, 16}}});
  }
  static void damage(const CacheStore& store, const std::string& key) {
    const auto file = store.root() / key.substr(0, 2) / key / "kernel.o";
    spjit::testing_support::make_writable(file);
    std::ofstream(file) << "rotten";
  }

  [[nodiscard]] CacheExport exported(const std::vector<std::string>& keys) const {
    BundleFileWriter writer(path());
    CacheExport result = export_cache(source(), keys, writer);
    writer.finish();
    return result;
  }
  [[nodiscard]] CacheImport imported() const {
    return import_cache(target(), BundleFile::open(path()));
  }

 private:
  spjit::testing_support::TemporaryDirectory folder_;
};

TEST_F(CacheBundleTest, KernelsArriveInAnotherCacheAsTheyWere) {
  publish(source(), k_first_key);
  publish(source(), k_second_key);

  const CacheExport result = exported({k_first_key, k_second_key});
  const CacheImport got = imported();

  EXPECT_EQ(result.entries, 2);
  EXPECT_TRUE(result.left_out.empty());
  EXPECT_EQ(got.imported, 2);
  EXPECT_EQ(got.bytes, 2 * 72);  // "code of " and 64 digits
  EXPECT_TRUE(has(target(), k_first_key));
  EXPECT_TRUE(has(target(), k_second_key));
}

TEST_F(CacheBundleTest, TheSameKernelsGiveTheSameBytesInAnyOrder) {
  publish(source(), k_first_key);
  publish(source(), k_second_key);

  static_cast<void>(exported({k_first_key, k_second_key}));
  const std::string bundle = bundled_text_of(path());
  static_cast<void>(exported({k_second_key, k_first_key, k_second_key}));

  EXPECT_EQ(bundled_text_of(path()), bundle);
}

TEST_F(CacheBundleTest, OnlyTheKernelsAskedForAreExported) {
  publish(source(), k_first_key);
  publish(source(), k_second_key);

  static_cast<void>(exported({k_second_key}));
  static_cast<void>(imported());

  EXPECT_FALSE(has(target(), k_first_key));
  EXPECT_TRUE(has(target(), k_second_key));
}

TEST_F(CacheBundleTest, ExportingIsNoUse) {
  publish(source(), k_first_key);
  const fs::path record = source().root() / "11" / k_first_key / "record.json";
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(100);
  fs::last_write_time(record, long_ago);

  static_cast<void>(exported({k_first_key}));

  EXPECT_EQ(fs::last_write_time(record), long_ago);
}

TEST_F(CacheBundleTest, DamagedKernelsAreLeftOutAndNamed) {
  publish(source(), k_first_key);
  publish(source(), k_second_key);
  damage(source(), k_first_key);

  const CacheExport result = exported({k_first_key, k_second_key, std::string(64, '3')});

  EXPECT_EQ(result.entries, 1);
  ASSERT_EQ(result.left_out.size(), 2U);
  EXPECT_EQ(result.left_out[0].key, k_first_key);
  EXPECT_THAT(result.left_out[0].problem, HasSubstr("kernel.o"));
  EXPECT_EQ(result.left_out[1].key, std::string(64, '3')) << "one that went meanwhile";
  EXPECT_EQ(imported().imported, 1);
  EXPECT_TRUE(has(target(), k_second_key));
}

TEST_F(CacheBundleTest, WhatIsThereAlreadyStays) {
  publish(source(), k_first_key);
  publish(source(), k_second_key);
  publish(target(), k_first_key);
  const fs::path record = target().root() / "11" / k_first_key / "record.json";
  const std::string before = bundled_text_of(record);
  static_cast<void>(exported({k_first_key, k_second_key}));

  const CacheImport got = imported();

  EXPECT_EQ(got.imported, 1);
  EXPECT_EQ(got.already_there, 1);
  EXPECT_EQ(bundled_text_of(record), before);
}

TEST_F(CacheBundleTest, KernelsOfOtherVersionsAndWithoutAKeyAreSkipped) {
  publish(source("0.0.9"), k_first_key);
  publish(source("0.1.0"), k_second_key);
  {
    BundleFileWriter writer(path());
    static_cast<void>(export_cache(source(), {k_first_key, k_second_key}, writer));
    writer.add({.layer = "fc1", .key = "", .spjit = "0.1.0"}, {});
    writer.finish();
  }

  const CacheImport got = imported();

  EXPECT_EQ(got.imported, 1);
  EXPECT_EQ(got.other_versions, 1);
  EXPECT_EQ(got.without_key, 1);
  EXPECT_EQ(target().list().size(), 1U);
}

TEST_F(CacheBundleTest, ADamagedFileEndsAnImportAndKernelsBeforeItStay) {
  publish(source(), k_first_key);
  publish(source(), k_second_key);
  static_cast<void>(exported({k_first_key, k_second_key}));
  const BundleIndex index = BundleFile::open(path()).index();
  const BundleBlob& second = index.blobs[index.kernels[1].files[0].blob];
  spjit::testing_support::make_writable(path());
  {
    std::fstream file(path(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(second.offset);
    file.put('X');
  }

  try {
    static_cast<void>(imported());
    FAIL() << "imported a damaged kernel";
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), HasSubstr("k.spjit: is damaged: file "));
    EXPECT_THAT(error.what(), HasSubstr("; 1 kernels were imported before that"));
  }
  EXPECT_TRUE(has(target(), k_first_key));
  EXPECT_FALSE(has(target(), k_second_key));
}

}  // namespace

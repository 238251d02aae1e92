#ifdef SPJIT_HAVE_LIBARCHIVE

#include "tools/cache_archive.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "cache_archive_testing.hpp"
#include "spjit/error.hpp"

namespace {

namespace fs = std::filesystem;
using namespace spjit;
using namespace spjit::cli;
using namespace spjit::cli::testing_support;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(CacheArchiveTest, KernelsArriveInAnotherCacheAsTheyWere) {
  publish(source(), k_first);
  publish(source(), k_second);

  const auto [result, archive] = exported(source(), {k_first, k_second});
  const ArchiveImport got = import(archive);

  EXPECT_EQ(result.entries, 2);
  EXPECT_EQ(result.bytes, static_cast<std::int64_t>(archive.size()));
  EXPECT_TRUE(result.left_out.empty());
  EXPECT_EQ(got.imported, 2);
  EXPECT_EQ(got.bytes, 2 * 72);  // "code of " and 64 digits
  EXPECT_TRUE(has(target(), k_first));
  EXPECT_TRUE(has(target(), k_second));
}

TEST_F(CacheArchiveTest, TheSameKernelsGiveTheSameBytesInAnyOrder) {
  publish(source(), k_first);
  publish(source(), k_second);

  const std::string archive = exported(source(), {k_first, k_second}).second;

  EXPECT_EQ(exported(source(), {k_second, k_first, k_second}).second, archive);
  EXPECT_EQ(archive.size() % 10240, 0U);
}

TEST_F(CacheArchiveTest, OnlyTheKernelsAskedForAreExported) {
  publish(source(), k_first);
  publish(source(), k_second);

  static_cast<void>(import(exported(source(), {k_second}).second));

  EXPECT_FALSE(has(target(), k_first));
  EXPECT_TRUE(has(target(), k_second));
}

TEST_F(CacheArchiveTest, ExportingIsNoUse) {
  publish(source(), k_first);
  const fs::path record = source().root() / "11" / k_first / "record.json";
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(100);
  fs::last_write_time(record, long_ago);
  const auto before = tree_of(source().root());

  static_cast<void>(exported(source(), {k_first}));

  EXPECT_EQ(fs::last_write_time(record), long_ago);
  EXPECT_EQ(tree_of(source().root()), before);
}

TEST_F(CacheArchiveTest, DamagedKernelsAreLeftOutAndNamed) {
  publish(source(), k_first);
  publish(source(), k_second);
  damage(source(), k_first);

  const auto [result, archive] = exported(source(), {k_first, k_second});

  EXPECT_EQ(result.entries, 1);
  ASSERT_EQ(result.left_out.size(), 1U);
  EXPECT_EQ(result.left_out[0].key, k_first);
  EXPECT_THAT(result.left_out[0].problem, HasSubstr("kernel.o"));
  EXPECT_EQ(import(archive).imported, 1);
  EXPECT_TRUE(has(target(), k_second));
}

TEST_F(CacheArchiveTest, OfNothingButDamagedKernelsThereIsNoArchive) {
  publish(source(), k_first);
  damage(source(), k_first);

  const auto [result, archive] = exported(source(), {k_first});

  EXPECT_EQ(result.entries, 0);
  EXPECT_EQ(result.left_out.size(), 1U);
  EXPECT_EQ(archive, "");
}

TEST_F(CacheArchiveTest, AnEmptyCacheGivesAnArchiveOfNothing) {
  const auto [result, archive] = exported(source(), {});

  EXPECT_EQ(result.entries, 0);
  EXPECT_EQ(import(archive).imported, 0);
}

TEST_F(CacheArchiveTest, AKernelThatGoesMeanwhileIsLeftOutAndNamed) {
  publish(source(), k_first);
  publish(source(), k_second);
  const std::vector<std::string> keys = {k_first, k_second};

  const auto remove_then_write = [&](std::span<const std::byte> /*bytes*/) {
    source().remove(k_second);
  };
  const ArchiveExport result = export_cache(source(), keys, remove_then_write);

  EXPECT_EQ(result.entries, 1);
  ASSERT_EQ(result.left_out.size(), 1U);
  EXPECT_EQ(result.left_out[0].key, k_second);
}

TEST_F(CacheArchiveTest, WhatIsThereAlreadyStays) {
  publish(source(), k_first);
  publish(source(), k_second);
  publish(target(), k_first);
  const fs::path record = target().root() / "11" / k_first / "record.json";
  const std::string before = content_of(record);

  const ArchiveImport got = import(exported(source(), {k_first, k_second}).second);

  EXPECT_EQ(got.imported, 1);
  EXPECT_EQ(got.already_there, 1);
  EXPECT_EQ(content_of(record), before);
}

TEST_F(CacheArchiveTest, KernelsOfOtherVersionsAreSkipped) {
  publish(source("0.0.9"), k_first);
  publish(source("0.1.0"), k_second);

  const ArchiveImport got = import(exported(source(), {k_first, k_second}).second);

  EXPECT_EQ(got.imported, 1);
  EXPECT_EQ(got.other_versions, 1);
  EXPECT_EQ(target().list().size(), 1U);
}

TEST_F(CacheArchiveTest, AnyFlippedByteIsRefusedOrMeansNothing) {
  publish(source(), k_first);
  publish(source(), k_second);
  const std::string archive = exported(source(), {k_first, k_second}).second;

  for (std::size_t i = 0; i < archive.size(); i += 103) {
    std::string flipped = archive;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x41);

    const std::string error = error_of(flipped);

    for (const CacheListing& entry : target().list()) EXPECT_TRUE(has(target(), entry.key)) << i;
    if (error.empty()) {
      EXPECT_EQ(target().list().size(), 2U) << i;
    }
    target().clear();
  }
}

TEST_F(CacheArchiveTest, CutShortAnywhereItIsRefusedAndWhatArrivedIsWhole) {
  publish(source(), k_first);
  publish(source(), k_second);
  const std::string archive = exported(source(), {k_first, k_second}).second;
  const std::size_t end_of_files = archive.find_last_not_of('\0') + 1;

  for (std::size_t length = 0; length < end_of_files; length += 211) {
    EXPECT_THAT(error_of(archive.substr(0, length)), StartsWith("k.tar: ")) << length;
    for (const CacheListing& entry : target().list()) EXPECT_TRUE(has(target(), entry.key));
    EXPECT_LT(target().list().size(), 2U) << length;
    target().clear();
  }
}

TEST_F(CacheArchiveTest, WhatReadingThrowsNamesTheArchiveAndWhatArrived) {
  const ReadBytes read = [](std::span<std::byte> /*into*/) -> std::size_t {
    throw IoError("cannot be read: Input/output error");
  };

  try {
    static_cast<void>(import_cache(target(), "k.tar", read, {}));
    FAIL() << "read what cannot be read";
  } catch (const IoError& error) {
    EXPECT_STREQ(error.what(),
                 "k.tar: cannot be read: Input/output error; 0 kernels were imported before that");
  }
}

}  // namespace

#endif  // SPJIT_HAVE_LIBARCHIVE

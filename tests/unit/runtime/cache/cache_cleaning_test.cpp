#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "cache_testing.hpp"
#include "runtime/cache/cache_store.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using namespace spjit::test;
using testing::HasSubstr;

class CacheCleaningTest : public CacheStoreTest {
 protected:
  /// The text of a record, without its first line.
  [[nodiscard]] std::string record_text(const std::string& key) const {
    const std::vector<std::byte> bytes = read_bytes(entry(key) / "record.json");
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return text.substr(text.find('\n') + 1);
  }

  /// The text of a record, with the first line that it needs.
  static std::string with_checksum(const std::string& rest) {
    return "{\"checksum\": \"" + checksum_hex(to_bytes(rest)) + "\",\n" + rest;
  }

  static void set_modified(const fs::path& path, std::int64_t seconds) {
    const timespec time{.tv_sec = seconds, .tv_nsec = 0};
    const std::array<timespec, 2> times = {time, time};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times.data(), 0), 0);
  }
};

TEST_F(CacheCleaningTest, ListsEntriesWithSizeUseAndProblems) {
  const CacheStore cache = store();
  publish(cache, key_of(1));
  publish(cache, key_of(2));
  write_bytes(entry(key_of(2)) / "record.json", to_bytes("{}"));
  const auto long_ago = fs::file_time_type::clock::now() - 100h;
  fs::last_write_time(entry(key_of(1)) / "record.json", long_ago);
  const auto now = std::chrono::system_clock::now();

  auto listings = cache.list();

  ASSERT_EQ(listings.size(), 2U);
  EXPECT_LT(listings[0].key, listings[1].key);
  const bool swapped = listings[0].key != key_of(1);
  const CacheListing& good = listings[swapped ? 1 : 0];
  const CacheListing& bad = listings[swapped ? 0 : 1];
  ASSERT_TRUE(good.record);
  EXPECT_EQ(good.record->kernel.at("tile").at(0), 28);
  const auto record_bytes = fs::file_size(entry(key_of(1)) / "record.json");
  EXPECT_EQ(good.bytes, static_cast<std::int64_t>(16 + record_bytes));
  EXPECT_LT(good.last_used, now - 99h);
  EXPECT_FALSE(bad.record);
  EXPECT_THAT(bad.problem, HasSubstr("checksum"));

  static_cast<void>(cache.lookup(key_of(1)));

  listings = cache.list();
  EXPECT_GT(listings[swapped ? 1 : 0].last_used, now - 1h);
}

TEST_F(CacheCleaningTest, RemovesOneEntry) {
  const CacheStore cache = store();
  publish(cache, key_of(1));
  publish(cache, key_of(2));

  EXPECT_TRUE(cache.remove(key_of(1)));

  EXPECT_FALSE(cache.remove(key_of(1)));
  EXPECT_FALSE(cache.lookup(key_of(1)).entry);
  EXPECT_TRUE(is_whole(cache.lookup(key_of(2))));
  EXPECT_EQ(count_in(root() / "tmp"), 0U);
}

TEST_F(CacheCleaningTest, ClearRemovesOnlyWhatIsItsOwn) {
  const CacheStore cache = store();
  publish(cache, key_of(1));
  publish(cache, key_of(2));
  write_bytes(entry(key_of(2)) / "kernel.o", to_bytes("damaged"));
  static_cast<void>(cache.lookup(key_of(2)));
  fs::create_directories(root() / "tmp" / "1-0123456789abcdef");
  write_bytes(root() / "notes.txt", to_bytes("mine"));
  fs::create_directories(root() / "ab" / "other");
  fs::create_directories(root() / "zz-other" / std::string(64, 'a'));
  const fs::path elsewhere = root().parent_path() / "elsewhere";
  fs::create_directories(elsewhere / (std::string("cd") + std::string(62, '0')));
  fs::create_directory_symlink(elsewhere, root() / "cd");

  const CacheClearResult cleared = cache.clear();

  EXPECT_EQ(cleared.entries, 3);
  EXPECT_GT(cleared.bytes, 2 * 16);
  EXPECT_TRUE(cache.list().empty());
  EXPECT_TRUE(fs::exists(root() / "notes.txt"));
  EXPECT_TRUE(fs::exists(root() / "ab" / "other"));
  EXPECT_TRUE(fs::exists(root() / "zz-other" / std::string(64, 'a')));
  EXPECT_TRUE(fs::exists(elsewhere / (std::string("cd") + std::string(62, '0'))));
  EXPECT_EQ(publish(cache, key_of(1)), PublishResult::published);
}

TEST_F(CacheCleaningTest, ClearOfNoDirectoryIsEmpty) {
  EXPECT_EQ(store().clear().entries, 0);
  EXPECT_TRUE(store().list().empty());
}

TEST_F(CacheCleaningTest, ClearOfACacheThatAnotherProcessIsAboutToMakeIsEmpty) {
  fs::create_directories(root());
  EXPECT_EQ(store().clear().entries, 0);
  write_bytes(root() / "CACHEDIR.TAG.0123456789abcdef", to_bytes("half a ta"));

  EXPECT_EQ(store().clear().entries, 0);

  EXPECT_TRUE(fs::exists(root() / "CACHEDIR.TAG.0123456789abcdef"));
}

TEST_F(CacheCleaningTest, ClearRefusesADirectoryOfOtherFiles) {
  fs::create_directories(root());
  write_bytes(root() / "notes.txt", to_bytes("mine"));

  EXPECT_THROW(static_cast<void>(store().clear()), CacheError);
}

TEST_F(CacheCleaningTest, ClearRefusesADirectoryThatLostItsTag) {
  const CacheStore cache = store();
  publish(cache, key_of(1));
  write_bytes(root() / "CACHEDIR.TAG", to_bytes("Signature: of some other program"));

  EXPECT_THROW(static_cast<void>(cache.clear()), CacheError);

  EXPECT_TRUE(fs::exists(entry(key_of(1))));
}

TEST_F(CacheCleaningTest, OpeningSweepsWhatWasLeftLongAgo) {
  publish(store(), key_of(1));
  const auto now = fs::file_time_type::clock::now();
  const auto leave = [&](const fs::path& path, std::chrono::hours age) {
    fs::create_directories(path);
    write_bytes(path / "kernel.o", k_object);
    fs::last_write_time(path, now - age);
  };
  leave(root() / "tmp" / "1-0000000000000000", 2h);
  leave(root() / "tmp" / "1-0000000000000001", 0h);
  leave(root() / "damaged" / "old", 24h * 8);
  leave(root() / "damaged" / "new", 24h * 6);
  write_bytes(root() / "CACHEDIR.TAG.0123456789abcdef", to_bytes("half a ta"));
  fs::last_write_time(root() / "CACHEDIR.TAG.0123456789abcdef", now - 2h);
  write_bytes(root() / "CACHEDIR.TAG.txt", to_bytes("mine"));
  fs::last_write_time(root() / "CACHEDIR.TAG.txt", now - 2h);
  // Written before a clock was set back, or under one that is a little ahead.
  leave(root() / "tmp" / "1-0000000000000002", -2h);
  leave(root() / "tmp" / "1-0000000000000003", 0h);
  fs::last_write_time(root() / "tmp" / "1-0000000000000003", now + 50min);

  const CacheStore cache = store();

  EXPECT_FALSE(fs::exists(root() / "tmp" / "1-0000000000000000"));
  EXPECT_TRUE(fs::exists(root() / "tmp" / "1-0000000000000001"));
  // Somebody may still be writing it: it goes an hour from now.
  EXPECT_LE(fs::last_write_time(root() / "tmp" / "1-0000000000000002"), now + 1h);
  EXPECT_TRUE(fs::exists(root() / "tmp" / "1-0000000000000003"));
  EXPECT_FALSE(fs::exists(root() / "CACHEDIR.TAG.0123456789abcdef"));
  EXPECT_TRUE(fs::exists(root() / "CACHEDIR.TAG.txt"));
  EXPECT_FALSE(fs::exists(root() / "damaged" / "old"));
  EXPECT_TRUE(fs::exists(root() / "damaged" / "new"));
  EXPECT_TRUE(is_whole(cache.lookup(key_of(1))));
}

TEST_F(CacheCleaningTest, VerifyFindsEveryDamagedFileAndMovesItsEntryAside) {
  const CacheStore cache = store();
  for (int i = 1; i <= 4; ++i) publish(cache, key_of(i));
  damage(key_of(1));
  fs::remove(entry(key_of(2)) / "source.cpp");
  write_bytes(entry(key_of(3)) / "record.json", to_bytes("{}"));
  age(key_of(4), 100h);

  const CacheVerifyResult result = cache.verify();

  EXPECT_EQ(result.entries, 4);
  EXPECT_GT(result.bytes, 3 * 16);
  ASSERT_EQ(result.damaged.size(), 3U);
  for (const CacheListing& damaged : result.damaged) {
    EXPECT_NE(damaged.key, key_of(4));
    EXPECT_NE(damaged.problem, "");
    EXPECT_FALSE(fs::exists(entry(damaged.key)));
  }
  EXPECT_EQ(count_in(root() / "damaged"), 3U);
  EXPECT_TRUE(cache.verify().damaged.empty());
  // Looking is not using.
  EXPECT_LT(cache.list().front().last_used, std::chrono::system_clock::now() - 99h);
}

TEST_F(CacheCleaningTest, VerifyLeavesEntriesOfOtherVersionsAndFormats) {
  publish(store("0.2.0"), key_of(1));
  publish(store(), key_of(2));
  std::string text = record_text(key_of(2));
  text.replace(text.find("\"format\": 1"), 11, "\"format\": 7");
  write_bytes(entry(key_of(2)) / "record.json", to_bytes(with_checksum(text)));

  const CacheVerifyResult result = store().verify();

  EXPECT_EQ(result.entries, 2);
  EXPECT_TRUE(result.damaged.empty());
  EXPECT_EQ(store().list().size(), 2U);
}

TEST_F(CacheCleaningTest, VerifyOfNoDirectoryIsEmpty) {
  EXPECT_EQ(store().verify().entries, 0);
  EXPECT_FALSE(fs::exists(root()));
}

TEST_F(CacheCleaningTest, PruneRemovesWhatWasNotUsedForLong) {
  const CacheStore cache = store();
  for (int i = 1; i <= 3; ++i) publish(cache, key_of(i));
  age(key_of(1), 48h);
  age(key_of(2), 2h);

  const CacheClearResult pruned = cache.prune({.unused_for = 24h});

  EXPECT_EQ(pruned.entries, 1);
  EXPECT_GT(pruned.bytes, 16);
  EXPECT_FALSE(fs::exists(entry(key_of(1))));
  EXPECT_EQ(cache.list().size(), 2U);
  EXPECT_EQ(count_in(root() / "tmp"), 0U);
}

TEST_F(CacheCleaningTest, PruneKeepsTheMostRecentlyUsedWithinTheBytes) {
  const CacheStore cache = store();
  for (int i = 1; i <= 4; ++i) {
    publish(cache, key_of(i));
    age(key_of(i), std::chrono::hours(i));
  }
  const std::int64_t each = cache.list().front().bytes;
  publish(cache, key_of(5));
  damage(key_of(5));
  static_cast<void>(cache.lookup(key_of(5)));

  const CacheClearResult pruned = cache.prune({.most_bytes = 2 * each + each / 2});

  EXPECT_EQ(pruned.entries, 3);  // the damaged one first, then those of 4 and 3 hours
  EXPECT_EQ(count_in(root() / "damaged"), 0U);
  EXPECT_TRUE(fs::exists(entry(key_of(1))));
  EXPECT_TRUE(fs::exists(entry(key_of(2))));
  EXPECT_EQ(cache.list().size(), 2U);
}

TEST_F(CacheCleaningTest, PruneNeverRemovesAnEntryInUse) {
  const CacheStore cache = store();
  publish(cache, key_of(1));
  publish(cache, key_of(2));
  age(key_of(2), 1h);
  static_cast<void>(cache.lookup(key_of(2)));

  const CacheClearResult pruned =
      cache.prune({.most_bytes = 0, .unused_for = 0s, .other_versions = true});

  EXPECT_EQ(pruned.entries, 0);
  EXPECT_EQ(cache.list().size(), 2U);
}

TEST_F(CacheCleaningTest, PruneRemovesOtherVersionsAndWhatIsDamaged) {
  const CacheStore cache = store();
  publish(store("0.2.0"), key_of(1));
  publish(cache, key_of(2));
  publish(cache, key_of(3));
  publish(cache, key_of(4));
  damage(key_of(3));
  static_cast<void>(cache.lookup(key_of(3)));
  write_bytes(entry(key_of(4)) / "record.json", to_bytes("{}"));
  for (const int number : {1, 2, 4}) age(key_of(number), 1h);

  const CacheClearResult pruned = cache.prune({.other_versions = true});

  EXPECT_EQ(pruned.entries, 3);
  EXPECT_EQ(cache.list().size(), 1U);
  EXPECT_EQ(count_in(root() / "damaged"), 0U);
  EXPECT_TRUE(is_whole(cache.lookup(key_of(2))));
}

TEST_F(CacheCleaningTest, PruneTakesTheFarFutureForTheOldestTime) {
  const CacheStore cache = store();
  for (int i = 1; i <= 3; ++i) publish(cache, key_of(i));
  age(key_of(1), 100h);
  age(key_of(2), -2h);
  age(key_of(3), -30min);
  const std::int64_t each = cache.list().front().bytes;

  const CacheClearResult pruned = cache.prune({.most_bytes = 2 * each});

  EXPECT_EQ(pruned.entries, 1);
  EXPECT_FALSE(fs::exists(entry(key_of(2))));
}

TEST_F(CacheCleaningTest, PruneCopesWithTimesThatNoClockShows) {
  const CacheStore cache = store();
  publish(cache, key_of(1));
  publish(cache, key_of(2));
  set_modified(entry(key_of(1)) / "record.json", std::numeric_limits<std::int64_t>::max() / 4);
  set_modified(entry(key_of(2)) / "record.json", -1'000'000'000'000);

  const auto century = std::chrono::seconds(std::int64_t{3'000'000'000});
  const CacheClearResult few = cache.prune({.unused_for = std::chrono::seconds::max()});
  const CacheClearResult pruned = cache.prune({.unused_for = century / 100});

  EXPECT_EQ(few.entries, 0);
  EXPECT_EQ(pruned.entries, 2);
}

TEST_F(CacheCleaningTest, PruneRefusesNumbersBelowZero) {
  EXPECT_THROW(store().prune({.most_bytes = -1}), InvalidArgument);
  EXPECT_THROW(store().prune({.unused_for = -1s}), InvalidArgument);
}

TEST_F(CacheCleaningTest, PruneOfNoDirectoryIsEmpty) {
  EXPECT_EQ(store().prune({.most_bytes = 0}).entries, 0);
  EXPECT_FALSE(fs::exists(root()));
}

}  // namespace
}  // namespace spjit

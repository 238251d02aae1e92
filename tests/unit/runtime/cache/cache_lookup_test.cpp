#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "cache_testing.hpp"
#include "runtime/cache/cache_store.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

namespace fs = std::filesystem;
using namespace spjit::test;
using testing::HasSubstr;

TEST_F(CacheStoreTest, AMissOfNothingHasNoReasonAndCreatesNothing) {
  const CacheLookup found = store().lookup(key_of(1));

  EXPECT_FALSE(found.entry);
  EXPECT_EQ(found.miss_reason, "");
  EXPECT_FALSE(fs::exists(root().parent_path()));
}

TEST_F(CacheStoreTest, ReadsOnlyTheWantedFilesButChecksAllSizes) {
  const CacheStore cache = store();
  const std::string key = key_of(1);
  publish(cache, key);
  const std::vector<std::string_view> wanted = {"kernel.o"};

  const CacheLookup found = cache.lookup(key, wanted);

  ASSERT_TRUE(found.entry);
  EXPECT_EQ(found.entry->files.size(), 1U);
  EXPECT_THROW(static_cast<void>(found.entry->file("source.cpp")), CacheError);
  write_bytes(entry(key) / "source.cpp", to_bytes("longer than before"));
  EXPECT_FALSE(cache.lookup(key, wanted).entry);
}

TEST_F(CacheStoreTest, NoticesAFlippedByteInAnyFile) {
  const CacheStore cache = store();
  const std::string key = key_of(1);
  publish(cache, key);
  const fs::path whole = root().parent_path() / "whole";
  fs::copy(entry(key), whole);

  for (const char* name : {"kernel.o", "source.cpp", "record.json"}) {
    const std::vector<std::byte> good = read_bytes(whole / name);
    // Every byte of a record is flipped in memory by CacheRecord's own test; here a sample will do.
    const std::size_t step = good.size() > 100 ? 13 : 1;
    for (std::size_t i = 0; i < good.size(); i += step) {
      std::vector<std::byte> bad = good;
      bad[i] ^= std::byte{0x20};
      write_bytes(entry(key) / name, bad);

      const CacheLookup found = cache.lookup(key);

      ASSERT_FALSE(found.entry) << name << " " << i;
      EXPECT_THAT(found.miss_reason, HasSubstr(key));
      EXPECT_EQ(std::ranges::count(found.miss_reason, '\n'), 0);
      ASSERT_FALSE(fs::exists(entry(key))) << name << " " << i;
      fs::copy(whole, entry(key));
    }
    EXPECT_TRUE(is_whole(cache.lookup(key))) << name;
  }
}

TEST_F(CacheStoreTest, ADamagedEntryMakesRoomForTheNextPublication) {
  const CacheStore cache = store();
  publish(cache, key_of(1));
  write_bytes(entry(key_of(1)) / "kernel.o", to_bytes("machine cods"));
  EXPECT_EQ(publish(cache, key_of(1)), PublishResult::already_there);

  EXPECT_FALSE(cache.lookup(key_of(1)).entry);

  EXPECT_EQ(publish(cache, key_of(1)), PublishResult::published);
  EXPECT_TRUE(is_whole(cache.lookup(key_of(1))));
}

TEST_F(CacheStoreTest, NoticesTornAndMissingFiles) {
  const CacheStore cache = store();
  const std::string key = key_of(1);

  for (const char* name : {"kernel.o", "source.cpp", "record.json"}) {
    publish(cache, key);
    write_bytes(entry(key) / name, to_bytes("cut"));
    EXPECT_FALSE(cache.lookup(key).entry) << name;

    publish(cache, key);
    fs::remove(entry(key) / name);
    EXPECT_FALSE(cache.lookup(key).entry) << name;

    publish(cache, key);
    fs::remove(entry(key) / name);
    fs::create_directory(entry(key) / name);
    EXPECT_FALSE(cache.lookup(key).entry) << name;

    publish(cache, key);
    fs::remove(entry(key) / name);
    fs::create_symlink("/etc/passwd", entry(key) / name);
    EXPECT_FALSE(cache.lookup(key).entry) << name;

    publish(cache, key);
    fs::remove(entry(key) / name);
    ASSERT_EQ(::mkfifo((entry(key) / name).c_str(), 0600), 0);
    EXPECT_FALSE(cache.lookup(key).entry) << name;
  }
  EXPECT_EQ(count_in(root() / "damaged"), 15U);
}

TEST_F(CacheStoreTest, AnEntryUnderAnotherKeyIsNotBelieved) {
  const CacheStore cache = store();
  publish(cache, key_of(1));
  fs::create_directories(entry(key_of(2)).parent_path());
  fs::rename(entry(key_of(1)), entry(key_of(2)));

  const CacheLookup found = cache.lookup(key_of(2));

  EXPECT_FALSE(found.entry);
  EXPECT_THAT(found.miss_reason, HasSubstr(key_of(1)));
}

TEST_F(CacheStoreTest, AnotherVersionIsAMissThatCanBePublishedAgain) {
  publish(store("0.1.0"), key_of(1));
  const CacheStore newer = store("0.2.0");

  const CacheLookup found = newer.lookup(key_of(1));

  EXPECT_FALSE(found.entry);
  EXPECT_THAT(found.miss_reason, HasSubstr("written by spjit 0.1.0, this is spjit 0.2.0"));
  EXPECT_EQ(publish(newer, key_of(1)), PublishResult::published);
  EXPECT_TRUE(is_whole(newer.lookup(key_of(1))));
}

TEST_F(CacheStoreTest, ReadersNeverSeeHalfAnEntryWhileOthersRemoveIt) {
  const CacheStore cache = store();
  const std::string key = key_of(1);
  publish(cache, key);
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0;
  std::thread reader([&] {
    while (!stop) {
      const CacheLookup found = cache.lookup(key);
      if (found.entry && !is_whole(found)) ++wrong;
    }
  });

  for (int i = 0; i < 40; ++i) {
    cache.remove(key);
    publish(cache, key);
  }
  stop = true;
  reader.join();

  EXPECT_EQ(wrong, 0);
}

TEST_F(CacheStoreTest, RunningOutOfDescriptorsIsAMissThatKeepsTheEntry) {
  publish(store(), key_of(1));

  const int code = in_child([&] {
    const CacheStore cache = store();
    const rlimit limit{.rlim_cur = 64, .rlim_max = 64};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
    int last = -1;
    for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) last = fd;
    ::close(last);  // enough for the directory, not for a file in it
    const CacheLookup found = cache.lookup(key_of(1));
    return !found.entry && !found.miss_reason.empty() ? 0 : 2;
  });

  EXPECT_EQ(code, 0);
  EXPECT_TRUE(is_whole(store().lookup(key_of(1))));
}

TEST_F(CacheStoreTest, AReadOnlyCacheIsReadAndPublishingSaysWhy) {
  publish(store(), key_of(1));
  publish(store(), key_of(2));
  write_bytes(entry(key_of(2)) / "kernel.o", to_bytes("machine cods"));
  const fs::path outer = root().parent_path().parent_path();
  for (const auto& item : fs::recursive_directory_iterator(outer)) {
    fs::permissions(item.path(), item.is_directory() ? fs::perms(0555) : fs::perms(0444));
  }
  fs::permissions(outer, fs::perms(0755));

  const int code = in_child([&] {
    constexpr uid_t k_nobody = 65534;
    if (::geteuid() == 0) {
      const bool dropped =
          ::setgroups(0, nullptr) == 0 && ::setgid(k_nobody) == 0 && ::setuid(k_nobody) == 0;
      if (!dropped) return 77;
    }
    const CacheStore cache = store();
    if (!is_whole(cache.lookup(key_of(1)))) return 1;
    const CacheLookup damaged = cache.lookup(key_of(2));
    if (damaged.entry || damaged.miss_reason.empty()) return 2;
    const CacheStore copy = cache;
    if (!copy.lookup(key_of(2)).miss_reason.empty()) return 6;  // said once
    if (cache.list().size() != 2) return 3;
    try {
      publish(cache, key_of(3));
    } catch (const CacheError& error) {
      return std::string_view(error.what()).find("ermission") == std::string_view::npos ? 4 : 0;
    }
    return 5;
  });

  for (const auto& item : fs::recursive_directory_iterator(outer)) {
    fs::permissions(item.path(), fs::perms(0700));
  }
  if (code == 77) GTEST_SKIP() << "root cannot drop its privileges here: no permission bites";
  EXPECT_EQ(code, 0);
}

TEST_F(CacheStoreTest, ADamagedEntryIsReportedByTheLookupThatMovesItAside) {
  const CacheStore cache = store();
  publish(cache, key_of(1));
  damage(key_of(1));

  const CacheLookup first = cache.lookup(key_of(1));
  const CacheLookup second = cache.lookup(key_of(1));

  EXPECT_THAT(first.miss_reason, HasSubstr("does not match its checksum"));
  EXPECT_THAT(first.miss_reason, HasSubstr(root().native()));
  EXPECT_FALSE(second.entry);
  EXPECT_EQ(second.miss_reason, "");
}

TEST_F(CacheStoreTest, ThreadsReportADamagedEntryOnce) {
  constexpr int k_threads = 4;
  const CacheStore cache = store();
  for (int round = 0; round < 10; ++round) {
    publish(cache, key_of(1));
    damage(key_of(1));
    std::atomic<int> reports = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < k_threads; ++i) {
      threads.emplace_back([&] {
        const CacheLookup found = cache.lookup(key_of(1));
        if (!found.miss_reason.empty()) ++reports;
      });
    }
    for (std::thread& thread : threads) thread.join();

    EXPECT_EQ(reports, 1);
    EXPECT_EQ(count_in(root() / "damaged"), static_cast<std::size_t>(round + 1));
  }
}

TEST_F(CacheStoreTest, AFileOrALinkInPlaceOfAnEntryIsMovedAside) {
  const CacheStore cache = store();
  publish(cache, key_of(1));
  publish(cache, key_of(2));
  fs::rename(entry(key_of(1)), root() / "elsewhere");
  write_bytes(entry(key_of(1)), to_bytes("no directory"));
  fs::rename(entry(key_of(2)), root() / "another");
  fs::create_directory_symlink(root() / "another", entry(key_of(2)));

  for (const int number : {1, 2}) {
    EXPECT_NE(cache.lookup(key_of(number)).miss_reason, "") << number;
    EXPECT_EQ(publish(cache, key_of(number)), PublishResult::published) << number;
    EXPECT_TRUE(is_whole(cache.lookup(key_of(number)))) << number;
  }
  EXPECT_EQ(count_in(root() / "damaged"), 2U);
}

TEST_F(CacheStoreTest, AnEntryThatTheCallerRejectsIsMovedAsideAndReportedOnce) {
  const CacheStore cache = store();
  publish(cache, key_of(1));
  const CacheLookup one = cache.lookup(key_of(1));
  const CacheLookup other = cache.lookup(key_of(1));

  const std::string first = cache.reject(*one.entry, "its code is for another machine");
  const std::string second = cache.reject(*other.entry, "its code is for another machine");

  EXPECT_THAT(first, HasSubstr("its code is for another machine"));
  EXPECT_THAT(first, HasSubstr(key_of(1)));
  EXPECT_EQ(second, "");
  EXPECT_FALSE(fs::exists(entry(key_of(1))));
  EXPECT_EQ(count_in(root() / "damaged"), 1U);
}

TEST_F(CacheStoreTest, ARejectedEntryThatWasReplacedMeanwhileStays) {
  const CacheStore cache = store();
  publish(cache, key_of(1));
  const CacheLookup old = cache.lookup(key_of(1));
  // Kept, so that the new directory cannot get the number of the old one.
  fs::rename(entry(key_of(1)), root() / "tmp" / "kept");
  publish(cache, key_of(1));

  EXPECT_EQ(cache.reject(*old.entry, "of no use"), "");

  EXPECT_TRUE(is_whole(cache.lookup(key_of(1))));
}

}  // namespace
}  // namespace spjit

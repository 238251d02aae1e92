#include <grp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string_view>
#include <thread>
#include <vector>

#include "cache_testing.hpp"
#include "runtime/cache/cache_store.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using namespace spjit::test;

/// Entries of `publish()` are much more than a 32nd of these limits, so that every publication
/// looks at the size.
class CacheLimitTest : public CacheStoreTest {
 protected:
  /// Bytes of an entry.
  [[nodiscard]] std::int64_t each() const {
    const CacheStore cache(root(), "0.1.0");
    publish(cache, key_of(1000));
    const std::int64_t bytes = cache.list().front().bytes;
    cache.remove(key_of(1000));
    return bytes;
  }

  [[nodiscard]] CacheStore limited(std::int64_t bytes) const {
    return {root(), "0.1.0", {.size_limit_bytes = bytes}};
  }
};

TEST_F(CacheLimitTest, TheLeastRecentlyUsedGoToATenthBelowTheLimit) {
  const CacheStore cache = limited(10 * each() + 5);
  for (int i = 1; i <= 10; ++i) {
    publish(cache, key_of(i));
    age(key_of(i), std::chrono::hours(20 - i));
  }
  EXPECT_EQ(cache.list().size(), 10U);
  static_cast<void>(cache.lookup(key_of(1)));  // now the last used one

  publish(cache, key_of(11));

  EXPECT_EQ(cache.list().size(), 9U);
  EXPECT_FALSE(fs::exists(entry(key_of(2))));
  EXPECT_FALSE(fs::exists(entry(key_of(3))));
  for (const int kept : {1, 4, 10, 11}) EXPECT_TRUE(fs::exists(entry(key_of(kept)))) << kept;
  EXPECT_EQ(count_in(root() / "tmp"), 0U);
}

TEST_F(CacheLimitTest, AnEntryInUseStaysThoughTheLimitIsExceeded) {
  const CacheStore cache = limited(1);

  publish(cache, key_of(1));
  publish(cache, key_of(2));
  age(key_of(1), 59s);
  publish(cache, key_of(3));

  // 59 s may have become 60 on a slow machine; the other two are new.
  EXPECT_GE(cache.list().size(), 2U);
  age(key_of(1), 2min);
  age(key_of(2), 2min);
  publish(cache, key_of(4));
  EXPECT_FALSE(fs::exists(entry(key_of(1))));
  EXPECT_FALSE(fs::exists(entry(key_of(2))));
  EXPECT_TRUE(is_whole(cache.lookup(key_of(3))));
  EXPECT_TRUE(is_whole(cache.lookup(key_of(4))));
}

TEST_F(CacheLimitTest, WithoutALimitNothingGoes) {
  const CacheStore cache = limited(0);
  for (int i = 1; i <= 5; ++i) {
    publish(cache, key_of(i));
    age(key_of(i), 1000h);
  }

  EXPECT_EQ(cache.list().size(), 5U);
}

TEST_F(CacheLimitTest, DamagedEntriesCountAndGoFirst) {
  const CacheStore cache = limited(3 * each() + 5);
  publish(cache, key_of(1));
  damage(key_of(1));
  static_cast<void>(cache.lookup(key_of(1)));
  for (const int i : {2, 3}) {
    publish(cache, key_of(i));
    age(key_of(i), 1h);
  }

  publish(cache, key_of(4));

  EXPECT_EQ(count_in(root() / "damaged"), 0U);
  EXPECT_EQ(cache.list().size(), 2U);  // to a tenth below: fewer than three
}

TEST_F(CacheLimitTest, TheFarFutureCountsAsOldestTheNearOneAsInUse) {
  const CacheStore cache = limited(1);
  publish(cache, key_of(1));
  age(key_of(1), -30min);
  publish(cache, key_of(2));
  age(key_of(2), -2h);

  publish(cache, key_of(3));

  EXPECT_TRUE(fs::exists(entry(key_of(1))));
  EXPECT_FALSE(fs::exists(entry(key_of(2))));
}

TEST_F(CacheLimitTest, AnEntryThatCannotBeRemovedDoesNotKeepTheOthers) {
  const fs::path outer = root().parent_path().parent_path();

  const int code = in_child([&] {
    // Root may remove anything, so it becomes nobody.
    constexpr uid_t k_nobody = 65534;
    const bool dropped = ::geteuid() != 0 || (::chown(outer.c_str(), k_nobody, k_nobody) == 0 &&
                                              ::setgroups(0, nullptr) == 0 &&
                                              ::setgid(k_nobody) == 0 && ::setuid(k_nobody) == 0);
    if (!dropped) return 77;
    const CacheStore cache = limited(1);
    publish(cache, key_of(1));
    publish(cache, key_of(2));
    age(key_of(1), 3h);
    age(key_of(2), 2h);
    fs::permissions(entry(key_of(1)), fs::perms(0500));
    publish(cache, key_of(3));
    if (!fs::exists(entry(key_of(1))) || fs::exists(entry(key_of(2)))) return 1;
    try {
      cache.prune({.most_bytes = 0});
      return 2;
    } catch (const CacheError& error) {
      // Once.
      const std::string_view message = error.what();
      const bool named = message.find(key_of(1)) != std::string_view::npos &&
                         message.find("cannot remove") == message.rfind("cannot remove");
      fs::permissions(entry(key_of(1)), fs::perms(0700));
      return named ? 0 : 3;
    }
  });

  if (code == 77) GTEST_SKIP() << "root cannot drop its privileges here: no permission bites";
  EXPECT_EQ(code, 0);
}

TEST_F(CacheLimitTest, LookupsDuringRemovalAreWholeOrPlainMisses) {
  const CacheStore cache = limited(1);
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0;
  std::atomic<int> hits = 0;
  std::thread reader([&] {
    while (!stop) {
      for (int i = 1; i <= 3; ++i) {
        const CacheLookup found = cache.lookup(key_of(i));
        if (found.entry) ++hits;
        if (found.entry ? !is_whole(found) : !found.miss_reason.empty()) ++wrong;
      }
    }
  });

  for (int round = 0; round < 12; ++round) {
    for (int i = 1; i <= 3; ++i) publish(cache, key_of(i));
    for (int i = 1; i <= 3; ++i) cache.remove(key_of(i));
  }
  publish(cache, key_of(1));
  while (hits == 0) std::this_thread::yield();
  stop = true;
  reader.join();

  EXPECT_EQ(wrong, 0);
  EXPECT_FALSE(fs::exists(root() / "damaged"));
}

TEST_F(CacheLimitTest, ProcessesThatShareALimitEndBelowIt) {
  const std::int64_t bytes = each();
  const std::int64_t limit = 8 * bytes;
  std::vector<std::thread> threads;
  std::atomic<int> failures = 0;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      const CacheStore cache = limited(limit);
      for (int i = 0; i < 20; ++i) {
        const std::string key = key_of(100 * t + i);
        publish(cache, key);
        std::error_code gone;
        fs::last_write_time(entry(key) / "record.json",
                            fs::file_time_type::clock::now() - std::chrono::hours(50 - i), gone);
        if (gone) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  publish(limited(limit), key_of(1));

  EXPECT_EQ(failures, 0);
  std::int64_t total = 0;
  for (const CacheListing& listing : limited(0).list()) total += listing.bytes;
  EXPECT_LE(total, limit);
  EXPECT_GE(total, bytes);
}

TEST_F(CacheLimitTest, RefusesALimitBelowZero) { EXPECT_THROW(limited(-1), InvalidArgument); }

}  // namespace
}  // namespace spjit

// What looks at a cache and changes nothing in it: CacheStore::read(), dry runs of prune().

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache_testing.hpp"
#include "runtime/cache/cache_store.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using namespace spjit::test;
using testing::HasSubstr;

using CacheReadTest = CacheStoreTest;

TEST_F(CacheReadTest, ReadsEntriesOfEveryVersionAndLeavesTheTimeOfLastUse) {
  publish(store("0.0.9"), key_of(1));
  age(key_of(1), 100h);
  const auto before = fs::last_write_time(entry(key_of(1)) / "record.json");

  const CacheEntry read = store("0.1.0").read(key_of(1));

  EXPECT_EQ(read.record.spjit_version, "0.0.9");
  EXPECT_TRUE(std::ranges::equal(read.file("kernel.o"), k_object));
  EXPECT_TRUE(std::ranges::equal(read.file("source.cpp"), k_source));
  EXPECT_EQ(fs::last_write_time(entry(key_of(1)) / "record.json"), before);
}

TEST_F(CacheReadTest, SaysWhatIsDamagedAndLeavesItWhereItIs) {
  publish(store(), key_of(1));
  damage(key_of(1));

  try {
    static_cast<void>(store().read(key_of(1)));
    FAIL() << "read a damaged entry";
  } catch (const CacheError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'kernel.o' does not match its checksum"));
  }
  EXPECT_TRUE(fs::exists(entry(key_of(1))));
}

TEST_F(CacheReadTest, AnEntryThatIsNotThereIsAnError) {
  EXPECT_THROW(static_cast<void>(store().read(key_of(1))), CacheError);
  EXPECT_THROW(static_cast<void>(store().read("../x")), InvalidArgument);
}

TEST_F(CacheReadTest, ADryRunCountsWhatPruningRemoves) {
  const CacheStore cache = store();
  for (int i = 1; i <= 5; ++i) publish(cache, key_of(i));
  publish(store("0.0.9"), key_of(6));
  damage(key_of(5));
  static_cast<void>(cache.lookup(key_of(5)));  // moved to damaged/
  age(key_of(1), 48h);
  for (const int number : {2, 3, 6}) age(key_of(number), 1h);
  const std::int64_t each = cache.list().front().bytes;
  CachePruneOptions options{
      .most_bytes = 2 * each, .unused_for = 24h, .other_versions = true, .dry_run = true};

  const CacheClearResult promised = cache.prune(options);
  const std::size_t left = cache.list().size();
  const std::size_t damaged = count_in(root() / "damaged");
  options.dry_run = false;
  const CacheClearResult removed = cache.prune(options);

  EXPECT_EQ(promised.entries, 4);  // old, another version's, damaged, one of two over the size
  EXPECT_EQ(promised.entries, removed.entries);
  EXPECT_EQ(promised.bytes, removed.bytes);
  EXPECT_EQ(left, 5U);
  EXPECT_EQ(damaged, 1U);
  EXPECT_EQ(cache.list().size(), 2U);
}

TEST_F(CacheReadTest, ADryRunKeepsWhatIsInUse) {
  publish(store(), key_of(1));

  EXPECT_EQ(store().prune({.most_bytes = 0, .dry_run = true}).entries, 0);
}

TEST_F(CacheReadTest, ADryRunMayLookAtAReadOnlyCache) {
  publish(store(), key_of(1));
  age(key_of(1), 1h);
  const CacheStore layer(root(), "0.1.0", {.read_only = true});

  EXPECT_EQ(layer.prune({.most_bytes = 0, .dry_run = true}).entries, 1);
  EXPECT_THROW(layer.prune({.most_bytes = 0}), CacheError);
}

}  // namespace
}  // namespace spjit

#include "runtime/cache/cache_layers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "cache_testing.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using namespace spjit::test;
using testing::HasSubstr;

constexpr CacheStoreOptions k_read_only = {.read_only = true};

/// Every path below a directory with its time of change and size.
std::map<std::string, std::pair<fs::file_time_type, std::uintmax_t>> snapshot(
    const fs::path& directory) {
  std::map<std::string, std::pair<fs::file_time_type, std::uintmax_t>> result;
  for (const auto& item : fs::recursive_directory_iterator(directory)) {
    result[item.path()] = {item.last_write_time(), item.is_regular_file() ? item.file_size() : 0};
  }
  return result;
}

class CacheLayersTest : public CacheStoreTest {
 protected:
  [[nodiscard]] fs::path layer_root(int number) const {
    return root().parent_path() / ("layer" + std::to_string(number));
  }
  [[nodiscard]] CacheStore filled_layer(int number, const std::vector<std::string>& keys) const {
    const CacheStore writer(layer_root(number), "0.1.0");
    for (const std::string& key : keys) publish(writer, key);
    return {layer_root(number), "0.1.0", k_read_only};
  }
};

TEST_F(CacheLayersTest, LooksInTheWritableCacheAndThenInEachLayer) {
  publish(store(), key_of(1));
  const CacheStore one = filled_layer(1, {key_of(1), key_of(2)});
  const CacheStore two = filled_layer(2, {key_of(2), key_of(3)});
  const LayeredCache cache(store(), {one, two});

  EXPECT_EQ(cache.lookup(key_of(1)).entry->root, root());
  EXPECT_EQ(cache.lookup(key_of(2)).entry->root, layer_root(1));
  EXPECT_EQ(cache.lookup(key_of(3)).entry->root, layer_root(2));
  EXPECT_FALSE(cache.lookup(key_of(4)).entry);
  EXPECT_TRUE(is_whole(cache.lookup(key_of(3))));
}

TEST_F(CacheLayersTest, NothingInALayerChanges) {
  const CacheStore layer = filled_layer(1, {key_of(1), key_of(2)});
  const fs::path object = layer_root(1) / key_of(2).substr(0, 2) / key_of(2) / "kernel.o";
  write_bytes(object, to_bytes("machine cods"));
  fs::create_directories(layer_root(1) / "tmp" / "1-0000000000000000");
  fs::last_write_time(layer_root(1) / "tmp" / "1-0000000000000000",
                      fs::file_time_type::clock::now() - 5h);
  const auto before = snapshot(layer_root(1));
  const CacheStore again(layer_root(1), "0.1.0", k_read_only);
  const LayeredCache cache(store(), {again});

  EXPECT_TRUE(is_whole(cache.lookup(key_of(1))));
  EXPECT_NE(cache.lookup(key_of(2)).miss_reason, "");
  EXPECT_EQ(again.verify().damaged.size(), 1U);

  EXPECT_EQ(snapshot(layer_root(1)), before);
  EXPECT_FALSE(fs::exists(root()));  // a hit is not copied up
}

TEST_F(CacheLayersTest, WhatIsDamagedInALayerIsReportedOnceAndFoundBelow) {
  const CacheStore one = filled_layer(1, {key_of(1)});
  const CacheStore two = filled_layer(2, {key_of(1)});
  write_bytes(layer_root(1) / key_of(1).substr(0, 2) / key_of(1) / "kernel.o",
              to_bytes("machine cods"));
  const LayeredCache cache(std::nullopt, {one, two});

  const CacheLookup first = cache.lookup(key_of(1));
  const CacheLookup second = cache.lookup(key_of(1));

  EXPECT_TRUE(is_whole(first));
  EXPECT_EQ(first.entry->root, layer_root(2));
  EXPECT_THAT(first.miss_reason, HasSubstr(layer_root(1).native()));
  EXPECT_TRUE(is_whole(second));
  EXPECT_EQ(second.miss_reason, "");
}

TEST_F(CacheLayersTest, ARejectedEntryOfALayerStaysAndIsReportedOnce) {
  const LayeredCache cache(store(), {filled_layer(1, {key_of(1)})});
  const CacheLookup found = cache.lookup(key_of(1));

  EXPECT_THAT(cache.reject(*found.entry, "of no use"), HasSubstr("of no use"));
  EXPECT_EQ(cache.reject(*found.entry, "of no use"), "");

  EXPECT_TRUE(is_whole(cache.lookup(key_of(1))));
}

TEST_F(CacheLayersTest, PublishesInTheWritableCacheOnly) {
  const LayeredCache cache(store(), {filled_layer(1, {key_of(1)})});
  const LayeredCache layers_only(std::nullopt, {filled_layer(1, {})});

  EXPECT_TRUE(cache.can_publish());
  EXPECT_EQ(cache.publish(key_of(2), {}, nullptr), PublishResult::published);
  EXPECT_TRUE(fs::exists(entry(key_of(2))));
  EXPECT_FALSE(layers_only.can_publish());
  EXPECT_THROW(layers_only.publish(key_of(2), {}, nullptr), CacheError);
}

TEST_F(CacheLayersTest, ALayerRefusesWhateverWouldChangeIt) {
  const CacheStore layer = filled_layer(1, {key_of(1)});

  EXPECT_THROW(publish(layer, key_of(2)), CacheError);
  EXPECT_THROW(layer.remove(key_of(1)), CacheError);
  EXPECT_THROW(layer.prune({.most_bytes = 0}), CacheError);
  EXPECT_THROW(layer.clear(), CacheError);
  EXPECT_EQ(layer.list().size(), 1U);
}

TEST_F(CacheLayersTest, ALayerHasToBeACache) {
  fs::create_directories(root());
  fs::permissions(root(), fs::perms(0700));

  EXPECT_THROW(CacheStore(root(), "0.1.0", k_read_only), CacheError);
  EXPECT_THROW(CacheStore(root() / "nowhere", "0.1.0", k_read_only), CacheError);
}

}  // namespace
}  // namespace spjit

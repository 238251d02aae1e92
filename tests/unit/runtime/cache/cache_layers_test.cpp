#include "runtime/cache/cache_layers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "cache_testing.hpp"
#include "runtime/bundle/bundle_file_writer.hpp"
#include "runtime/bundle/bundle_layer.hpp"
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

template <typename Layer>
std::shared_ptr<const CacheLayer> shared(Layer layer) {
  return std::make_shared<const Layer>(std::move(layer));
}

/// A layer that is neither a directory nor a bundle: entries without files, all of one name.
class NamedLayer final : public CacheLayer {
 public:
  explicit NamedLayer(std::string key) : key_(std::move(key)) {}

  [[nodiscard]] CacheLookup lookup(std::string_view key,
                                   std::span<const std::string_view> /*wanted*/) const override {
    if (key != key_) return {};
    CacheEntry entry;
    entry.record.key = key_;
    entry.root = "anywhere";
    return {.entry = std::move(entry), .miss_reason = {}};
  }
  [[nodiscard]] std::string reject(const CacheEntry& entry,
                                   std::string_view reason) const override {
    return key_ + " has " + entry.record.key + ", " + std::string(reason);
  }
  [[nodiscard]] std::vector<ListedKernel> kernels() const override { return {}; }

 private:
  std::string key_;
};

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
  const LayeredCache cache(store(), {shared(one), shared(two)});

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
  const LayeredCache cache(store(), {shared(again)});

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
  const LayeredCache cache(std::nullopt, {shared(one), shared(two)});

  const CacheLookup first = cache.lookup(key_of(1));
  const CacheLookup second = cache.lookup(key_of(1));

  EXPECT_TRUE(is_whole(first));
  EXPECT_EQ(first.entry->root, layer_root(2));
  EXPECT_THAT(first.miss_reason, HasSubstr(layer_root(1).native()));
  EXPECT_TRUE(is_whole(second));
  EXPECT_EQ(second.miss_reason, "");
}

TEST_F(CacheLayersTest, ARejectedEntryOfALayerStaysAndIsReportedOnce) {
  const LayeredCache cache(store(), {shared(filled_layer(1, {key_of(1)}))});
  const CacheLookup found = cache.lookup(key_of(1));

  EXPECT_THAT(cache.reject(*found.entry, "of no use"), HasSubstr("of no use"));
  EXPECT_EQ(cache.reject(*found.entry, "of no use"), "");

  EXPECT_TRUE(is_whole(cache.lookup(key_of(1))));
}

TEST_F(CacheLayersTest, AnEntryIsRejectedWhereItWasFound) {
  // Layers of one name are told apart.
  const LayeredCache cache(store(), {shared(NamedLayer(key_of(7))), shared(NamedLayer(key_of(8))),
                                     shared(filled_layer(1, {key_of(1)}))});
  const CacheLookup two = cache.lookup(key_of(8));
  const CacheLookup file = cache.lookup(key_of(1));

  EXPECT_EQ(cache.reject(*two.entry, "of no use"), key_of(8) + " has " + key_of(8) + ", of no use");
  EXPECT_THAT(cache.reject(*file.entry, "of no use"), HasSubstr(layer_root(1).native()));
}

TEST_F(CacheLayersTest, PublishesInTheWritableCacheOnly) {
  const LayeredCache cache(store(), {shared(filled_layer(1, {key_of(1)}))});
  const LayeredCache layers_only(std::nullopt, {shared(filled_layer(1, {}))});

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

class BundleLayersTest : public CacheLayersTest {
 protected:
  [[nodiscard]] fs::path bundle_path() const { return root().parent_path() / "model.spjit"; }

  /// Of kernels as `publish()` has them; each twice, as layers of one key.
  [[nodiscard]] BundleLayer filled_bundle(const std::vector<std::string>& keys,
                                          const std::string& version = "0.1.0") const {
    fs::create_directories(bundle_path().parent_path());
    BundleFileWriter writer(bundle_path());
    const std::vector<CacheFile> files = {{.name = "kernel.o", .bytes = k_object},
                                          {.name = "source.cpp", .bytes = k_source}};
    for (const std::string& key : keys) {
      for (const char* layer : {"fc1", "fc2"}) {
        writer.add({.layer = layer, .key = key, .spjit = version, .record = {{"tile", {28, 16}}}},
                   files);
      }
    }
    writer.finish();
    return open_bundle();
  }
  [[nodiscard]] BundleLayer open_bundle() const {
    return {BundleFile::open(bundle_path()), "0.1.0"};
  }
  /// A byte of the first file, whatever the mode.
  void damage_bundle() const {
    fs::permissions(bundle_path(), fs::perms(0600));
    std::vector<std::byte> bytes = read_bytes(bundle_path());
    bytes[4096] ^= std::byte{1};
    write_bytes(bundle_path(), bytes);
  }
};

TEST_F(BundleLayersTest, KernelsOfABundleAreEntries) {
  publish(store(), key_of(1));
  const LayeredCache cache(store(), {shared(filled_bundle({key_of(1), key_of(2)})),
                                     shared(filled_layer(1, {key_of(2), key_of(3)}))});

  const CacheLookup found = cache.lookup(key_of(2));

  EXPECT_TRUE(is_whole(found));
  EXPECT_EQ(found.miss_reason, "");
  EXPECT_EQ(found.entry->root, bundle_path());
  EXPECT_EQ(found.entry->record.key, key_of(2));
  EXPECT_EQ(found.entry->record.files.size(), 2U);
  EXPECT_TRUE(found.entry->files.at("kernel.o").is_mapped());
  EXPECT_EQ(cache.lookup(key_of(1)).entry->root, root());
  EXPECT_EQ(cache.lookup(key_of(3)).entry->root, layer_root(1));
  EXPECT_FALSE(cache.lookup(key_of(4)).entry);
}

TEST_F(BundleLayersTest, OnlyFilesThatAreWantedAreRead) {
  const BundleLayer layer = filled_bundle({key_of(1)});
  const std::vector<std::string_view> wanted = {"source.cpp"};

  const CacheLookup found = layer.lookup(key_of(1), wanted);

  EXPECT_TRUE(std::ranges::equal(found.entry->file("source.cpp"), k_source));
  EXPECT_THROW(static_cast<void>(found.entry->file("kernel.o")), CacheError);
}

TEST_F(BundleLayersTest, ADamagedKernelIsReportedOnceAndFoundBelow) {
  static_cast<void>(filled_bundle({key_of(1)}));
  damage_bundle();
  const LayeredCache cache(std::nullopt,
                           {shared(open_bundle()), shared(filled_layer(1, {key_of(1)}))});

  const CacheLookup first = cache.lookup(key_of(1));
  const CacheLookup second = cache.lookup(key_of(1));

  EXPECT_TRUE(is_whole(first));
  EXPECT_EQ(first.entry->root, layer_root(1));
  EXPECT_THAT(first.miss_reason, HasSubstr(bundle_path().native()));
  EXPECT_THAT(first.miss_reason, HasSubstr("is damaged"));
  EXPECT_TRUE(is_whole(second));
  EXPECT_EQ(second.miss_reason, "");
}

TEST_F(BundleLayersTest, AKernelOfAnotherVersionIsNotTaken) {
  const BundleLayer layer = filled_bundle({key_of(1)}, "0.0.9");

  const CacheLookup found = layer.lookup(key_of(1));

  EXPECT_FALSE(found.entry);
  EXPECT_THAT(found.miss_reason, HasSubstr("was compiled by spjit 0.0.9; this is 0.1.0"));
}

TEST_F(BundleLayersTest, ARejectedKernelStaysAndIsReportedOnce) {
  const LayeredCache cache(store(), {shared(filled_bundle({key_of(1)}))});
  const CacheLookup found = cache.lookup(key_of(1));

  EXPECT_THAT(cache.reject(*found.entry, "of no use"), HasSubstr("of no use"));
  EXPECT_EQ(cache.reject(*found.entry, "of no use"), "");

  EXPECT_TRUE(is_whole(cache.lookup(key_of(1))));
}

TEST_F(BundleLayersTest, ThreadsLookInOneBundleAndAnEntryOutlivesIt) {
  std::optional<LayeredCache> cache;
  cache.emplace(std::nullopt, std::vector{shared(filled_bundle({key_of(1), key_of(2)}))});
  std::atomic<int> whole = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < 50; ++k)
        whole += is_whole(cache->lookup(key_of(1 + (i + k) % 2))) ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  const CacheLookup found = cache->lookup(key_of(1));

  cache.reset();
  fs::remove(bundle_path());

  EXPECT_EQ(whole, 200);
  EXPECT_TRUE(is_whole(found));
}

}  // namespace
}  // namespace spjit

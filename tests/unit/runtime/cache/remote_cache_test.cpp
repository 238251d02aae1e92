#include "runtime/cache/remote_cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cache_testing.hpp"
#include "runtime/bundle/bundle_file_writer.hpp"
#include "runtime/cache/cache_layers.hpp"
#include "runtime/cache/server_breakers.hpp"
#include "spjit/error.hpp"
#include "tests/support/files/fault_server.hpp"
#include "tests/support/files/signing_keys.hpp"
#include "tests/support/long_tests.hpp"

namespace spjit {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using namespace spjit::test;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using Clock = std::chrono::steady_clock;

// Of a machine that does other things, too.
constexpr auto k_slack = 2s;

class RemoteCacheTest : public CacheStoreTest {
 protected:
  void SetUp() override {
    if (!FaultServer::can_run()) GTEST_SKIP() << "there is no python3 to run the server";
    server_ = std::make_unique<FaultServer>();
  }

  [[nodiscard]] RemoteSettings settings(const std::string& fault) const {
    RemoteSettings settings{.url = server_->url(fault)};
    settings.public_keys = {parse_ed25519_public_key(k_public_key)};
    settings.http.first_byte = 10s;
    settings.http.total = 20s;
    return settings;
  }
  [[nodiscard]] RemoteSettings writing(const std::string& fault) const {
    RemoteSettings result = settings(fault);
    result.may_write = true;
    result.private_key = Ed25519PrivateKey::parse(k_private_key);
    return result;
  }
  [[nodiscard]] RemoteCache reader(const std::string& fault) const {
    return {store(), settings(fault)};
  }

  /// The cache of another machine, with this entry.
  [[nodiscard]] CacheStore source(const std::string& key,
                                  const std::string& version = "0.1.0") const {
    const CacheStore other(root().parent_path() / ("source" + version), version);
    publish(other, key);
    return other;
  }
  /// Puts an entry on the server.
  void serve(const std::string& key, const RemoteSettings& settings,
             const std::string& version = "0.1.0") const {
    const RemoteServer server(settings);
    ASSERT_EQ(push_entry(server, source(key, version), key).outcome, RemotePut::written);
  }
  void serve(const std::string& key) const { serve(key, writing("ok")); }
  [[nodiscard]] fs::path object(const std::string& key) const {
    return server_->folder() / key.substr(0, 2) / (key + ".spjit");
  }

  static std::int64_t misses(const RemoteCache& cache, RemoteMiss miss) {
    return cache.server()->counts().misses.at(static_cast<std::size_t>(miss));
  }

  /// A look-up that has to miss for that reason, and to leave nothing.
  void expect_miss(const RemoteCache& cache, const std::string& key, RemoteMiss miss) const {
    const std::int64_t before = misses(cache, miss);

    const CacheLookup found = cache.lookup(key);

    EXPECT_FALSE(found.entry);
    EXPECT_EQ(misses(cache, miss), before + 1) << to_string(miss) << ": " << found.miss_reason;
    EXPECT_FALSE(fs::exists(entry(key)));
    EXPECT_EQ(count_in(root() / "tmp"), 0U);
  }

  std::unique_ptr<FaultServer> server_;
};

TEST_F(RemoteCacheTest, WhatIsThereIsPublishedInTheDirectory) {
  serve(key_of(1));
  const RemoteCache cache = reader("ok");

  const CacheLookup found = cache.lookup(key_of(1));

  EXPECT_TRUE(is_whole(found));
  EXPECT_EQ(found.miss_reason, "");
  EXPECT_EQ(found.entry->root, root());
  EXPECT_TRUE(is_whole(store().lookup(key_of(1))));
  EXPECT_EQ(count_in(root() / "tmp"), 0U);
  EXPECT_EQ(cache.server()->counts().hits, 1);
  EXPECT_EQ(cache.server()->counts().bytes_in,
            static_cast<std::int64_t>(fs::file_size(object(key_of(1)))));
}

TEST_F(RemoteCacheTest, AServerThatFailsIsAMissWithItsReason) {
  serve(key_of(1));
  serve(key_of(2));
  const std::pair<const char*, RemoteMiss> k_faults[] = {
      {"status/404", RemoteMiss::absent},   {"status/500", RemoteMiss::status},
      {"status/503", RemoteMiss::status},   {"status/403", RemoteMiss::status},
      {"loop", RemoteMiss::redirect},       {"scheme", RemoteMiss::redirect},
      {"truncated", RemoteMiss::cut_short}, {"cut", RemoteMiss::damaged},
      {"too-long", RemoteMiss::too_large},  {"flipped", RemoteMiss::damaged},
      {"other", RemoteMiss::key},           {"reset", RemoteMiss::connection},
      {"garbage", RemoteMiss::connection},
  };

  for (const auto& [fault, miss] : k_faults) {
    SCOPED_TRACE(fault);
    const RemoteCache cache = reader(fault);

    expect_miss(cache, key_of(1), miss);
  }
}

TEST_F(RemoteCacheTest, NobodyIsThere) {
  RemoteSettings nobody = settings("ok");
  nobody.url = "http://127.0.0.1:" + std::to_string(unused_port());
  RemoteSettings nowhere = settings("ok");
  nowhere.url = "http://spjit-test.invalid";

  expect_miss({store(), nobody}, key_of(1), RemoteMiss::connection);
  expect_miss({store(), nowhere}, key_of(1), RemoteMiss::connection);
}

TEST_F(RemoteCacheTest, ASlowServerCostsItsDeadline) {
  serve(key_of(1));
  for (const char* fault : {"slow-first-byte", "slow-body", "stall"}) {
    SCOPED_TRACE(fault);
    RemoteSettings slow = settings(fault);
    slow.http.first_byte = 400ms;
    slow.http.total = 600ms;
    const RemoteCache cache(store(), slow);
    const auto begin = Clock::now();

    expect_miss(cache, key_of(1), RemoteMiss::timeout);

    EXPECT_LT(Clock::now() - begin, 600ms + k_slack);
  }
}

TEST_F(RemoteCacheTest, OneThatDoesNotAnswerIsLeftAlone) {
  RemoteSettings dead = settings("slow-first-byte");
  dead.http.first_byte = 100ms;
  const RemoteCache cache(store(), dead);
  const auto begin = Clock::now();

  for (int layer = 0; layer < 72; ++layer) static_cast<void>(cache.lookup(key_of(layer)));

  EXPECT_LT(Clock::now() - begin, 3 * 100ms + k_slack);
  EXPECT_EQ(misses(cache, RemoteMiss::timeout), 3);
  EXPECT_EQ(misses(cache, RemoteMiss::breaker), 69);
  EXPECT_EQ(server_->requests().size(), 3U);
}

TEST_F(RemoteCacheTest, AProcessWithAClientALayerPaysForADeadServerOnce) {
  RemoteSettings dead = settings("slow-first-byte");
  dead.http.first_byte = 100ms;
  const auto begin = Clock::now();

  for (int layer = 0; layer < 72; ++layer) {
    static_cast<void>(RemoteCache(store(), dead).lookup(key_of(layer)));
  }

  EXPECT_LT(Clock::now() - begin, 3 * 100ms + k_slack);
  EXPECT_EQ(server_->requests().size(), 3U);
}

TEST_F(RemoteCacheTest, AnotherServerOrAnotherWayToAskHasABreakerOfItsOwn) {
  const RemoteSettings first = settings("ok");
  RemoteSettings other = settings("status/500");
  RemoteSettings longer = first;
  longer.http.first_byte += 1ms;
  RemoteSettings token = first;
  token.http.credentials = HttpBearer{"one"};
  RemoteSettings second_token = first;
  second_token.http.credentials = HttpBearer{"two"};
  RemoteSettings aws = first;
  aws.http.credentials = HttpAwsKeys{"id", "secret", "", "region"};
  const auto breaker = breaker_of(first);

  EXPECT_EQ(breaker_of(first), breaker);
  for (const RemoteSettings& each : {other, longer, token, second_token, aws}) {
    EXPECT_NE(breaker_of(each), breaker);
  }
  EXPECT_NE(breaker_of(token), breaker_of(second_token));
}

TEST_F(RemoteCacheTest, BreakersThatNobodyHasDoNotPileUp) {
  std::weak_ptr<CircuitBreaker> idle = breaker_of(settings("idle"));
  const auto held = breaker_of(settings("held"));

  for (int i = 0; i < 200; ++i) static_cast<void>(breaker_of(settings(std::to_string(i))));

  EXPECT_TRUE(idle.expired());
  EXPECT_EQ(breaker_of(settings("held")), held);
}

TEST_F(RemoteCacheTest, AfterARestItIsAskedAgain) {
  serve(key_of(1));
  RemoteSettings flaky = settings("flaky/3");
  flaky.breaker.rest = 300ms;
  const RemoteCache cache(store(), flaky);

  expect_miss(cache, key_of(1), RemoteMiss::status);
  expect_miss(cache, key_of(1), RemoteMiss::status);
  EXPECT_THAT(cache.lookup(key_of(1)).miss_reason,
              AllOf(HasSubstr("503"), HasSubstr("left alone")));
  expect_miss(cache, key_of(1), RemoteMiss::breaker);
  std::this_thread::sleep_for(400ms);

  EXPECT_TRUE(is_whole(cache.lookup(key_of(1))));
}

TEST_F(RemoteCacheTest, OnlyWhatATrustedKeySignedIsTaken) {
  RemoteSettings unsigned_writer = writing("ok");
  unsigned_writer.private_key.reset();
  RemoteSettings other_writer = writing("ok");
  other_writer.private_key = Ed25519PrivateKey::parse(k_other_private_key);
  serve(key_of(1), unsigned_writer);
  serve(key_of(2), other_writer);
  RemoteSettings both = settings("ok");
  both.public_keys.push_back(parse_ed25519_public_key(k_other_public_key));

  const RemoteCache cache = reader("ok");
  expect_miss(cache, key_of(1), RemoteMiss::signature);
  expect_miss(cache, key_of(2), RemoteMiss::signature);
  EXPECT_EQ(cache.lookup(key_of(1)).miss_reason, "");  // said once

  EXPECT_TRUE(is_whole(RemoteCache(store(), both).lookup(key_of(2))));
}

TEST_F(RemoteCacheTest, AServerThatIsTrustedIsNamedInTheNote) {
  RemoteSettings writer = writing("ok");
  writer.private_key.reset();
  serve(key_of(1), writer);
  RemoteSettings trusting = settings("ok");
  trusting.trust = RemoteTrust::server;
  const RemoteCache cache(store(), trusting);

  ASSERT_TRUE(cache.lookup(key_of(1)).entry);

  const nlohmann::json kernel = store().lookup(key_of(1)).entry->record.kernel;
  EXPECT_EQ(kernel.at("note"), "taken unsigned from " + trusting.url + " (trust = server)");
}

TEST_F(RemoteCacheTest, KernelsOfAnotherVersionOrShapeAreNotTaken) {
  serve(key_of(1), writing("ok"), "0.0.9");
  fs::create_directories(object(key_of(3)).parent_path());
  BundleFileWriter two(object(key_of(3)), Ed25519PrivateKey::parse(k_private_key));
  for (const int number : {3, 4}) {
    two.add({.layer = "", .key = key_of(number), .spjit = "0.1.0"},
            std::vector<CacheFile>{{"kernel.o", k_object}});
  }
  two.finish();
  fs::create_directories(object(key_of(5)).parent_path());
  write_bytes(object(key_of(5)), to_bytes("no bundle"));
  const RemoteCache cache = reader("ok");

  expect_miss(cache, key_of(1), RemoteMiss::version);
  expect_miss(cache, key_of(3), RemoteMiss::damaged);
  expect_miss(cache, key_of(5), RemoteMiss::damaged);
}

TEST_F(RemoteCacheTest, EveryChangeOfASignedObjectIsRefused) {
  serve(key_of(1));
  const std::vector<std::byte> whole = read_bytes(object(key_of(1)));
  RemoteSettings patient = settings("ok");
  const RemoteCache cache(store(), patient);
  std::mt19937 random(42);
  const int changes = testing_support::long_tests() ? 10'000 : 300;

  for (int i = 0; i < changes; ++i) {
    std::vector<std::byte> changed = whole;
    changed[random() % changed.size()] ^= static_cast<std::byte>(1U << random() % 8);
    write_bytes(object(key_of(1)), changed);

    ASSERT_FALSE(cache.lookup(key_of(1)).entry) << i;
  }

  write_bytes(object(key_of(1)), whole);
  EXPECT_TRUE(is_whole(cache.lookup(key_of(1))));
}

TEST_F(RemoteCacheTest, ADirectoryThatTakesNothingIsAMiss) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  serve(key_of(1));
  publish(store(), key_of(9));
  fs::permissions(root() / "tmp", fs::perms::none);
  const RemoteCache cache = reader("ok");

  EXPECT_THAT(cache.lookup(key_of(1)).miss_reason, HasSubstr("cannot be kept"));

  EXPECT_EQ(misses(cache, RemoteMiss::local), 1);
  fs::permissions(root() / "tmp", fs::perms::owner_all);
}

TEST_F(RemoteCacheTest, IsTheLastLayerForWhatIsDear) {
  serve(key_of(1));
  const LayeredCache cache(store(), {}, std::make_shared<const RemoteCache>(reader("ok")));

  EXPECT_FALSE(cache.lookup(key_of(1)).entry);
  EXPECT_FALSE(cache.lookup(key_of(1), {}, {.is_dear = false}).entry);
  EXPECT_THAT(server_->requests(), testing::SizeIs(2));  // HEAD and PUT of serve()
  CacheLookup found = cache.lookup(key_of(1), {}, {.is_dear = true});
  ASSERT_TRUE(is_whole(found));
  EXPECT_TRUE(is_whole(cache.lookup(key_of(1))));

  EXPECT_THAT(cache.reject(*found.entry, "of no use"), HasSubstr("of no use"));
  EXPECT_FALSE(cache.lookup(key_of(1)).entry);
}

TEST_F(RemoteCacheTest, ALookupEndsWhenItIsTold) {
  serve(key_of(1));
  const RemoteCache cache = reader("stall");
  const auto begin = Clock::now();

  EXPECT_THROW(
      static_cast<void>(cache.lookup(key_of(1), {}, {.deadline = begin + 100ms, .stop = {}})),
      DeadlineExceeded);

  EXPECT_LT(Clock::now() - begin, k_slack);
  EXPECT_EQ(count_in(root() / "tmp"), 0U);
}

TEST_F(RemoteCacheTest, AChildOfForkAsksByItself) {
  serve(key_of(1));
  serve(key_of(2));
  const RemoteCache cache = reader("ok");
  ASSERT_TRUE(cache.lookup(key_of(1)).entry);

  EXPECT_EQ(in_child([&] { return cache.lookup(key_of(2)).entry ? 0 : 1; }), 0);
}

TEST_F(RemoteCacheTest, LayoutsSayWhereObjectsLie) {
  const std::string key = key_of(1);
  const std::pair<RemoteLayout, std::string> k_layouts[] = {
      {RemoteLayout::subdirs, "/ok/" + key.substr(0, 2) + "/" + key + ".spjit"},
      {RemoteLayout::flat, "/ok/" + key + ".spjit"},
      {RemoteLayout::bazel, "/ok/ac/" + key}};

  for (const auto& [layout, path] : k_layouts) {
    RemoteSettings there = writing("ok");
    there.layout = layout;
    const std::size_t before = server_->requests().size();
    serve(key, there);
    static_cast<void>(store().remove(key));

    EXPECT_TRUE(is_whole(RemoteCache(store(), there).lookup(key)));

    std::vector<std::string> requests = server_->requests();
    requests.erase(requests.begin(), requests.begin() + static_cast<std::ptrdiff_t>(before));
    EXPECT_THAT(requests, ElementsAre("HEAD " + path, "PUT " + path, "GET " + path));
  }
}

class RemotePushTest : public RemoteCacheTest {
 protected:
  static RemoteCounts counts(const RemoteCache& cache) { return cache.server()->counts(); }
};

TEST_F(RemotePushTest, EntriesAreWrittenInTheBackgroundOnce) {
  publish(store(), key_of(1));
  publish(store(), key_of(2));
  const RemoteCache cache(store(), writing("ok"));

  cache.push_later(key_of(1), 100);
  cache.push_later(key_of(2), 100);
  cache.push_later(key_of(1), 100);
  EXPECT_TRUE(cache.flush({}));

  EXPECT_EQ(counts(cache).written, 2);
  EXPECT_EQ(counts(cache).there_already, 1);
  EXPECT_EQ(cache.take_reports(), "");
  const RemoteCache other(CacheStore(root().parent_path() / "other", "0.1.0"), settings("ok"));
  EXPECT_TRUE(is_whole(other.lookup(key_of(2))));
}

TEST_F(RemotePushTest, WhoMayReadOnlyWritesNothing) {
  publish(store(), key_of(1));
  const RemoteCache cache = reader("ok");

  cache.push_later(key_of(1), 100);

  EXPECT_TRUE(cache.flush({}));
  EXPECT_TRUE(server_->requests().empty());
}

TEST_F(RemotePushTest, ARefusalIsSaidOnceByName) {
  publish(store(), key_of(1));
  publish(store(), key_of(2));
  const RemoteCache cache(store(), writing("status/413"));

  cache.push_later(key_of(1), 100);
  cache.push_later(key_of(2), 100);
  EXPECT_TRUE(cache.flush({}));

  EXPECT_EQ(counts(cache).not_written, 2);
  EXPECT_THAT(cache.take_reports(), AllOf(HasSubstr("413"), HasSubstr("client_max_body_size"),
                                          testing::Not(HasSubstr("; remote cache"))));
  EXPECT_EQ(cache.take_reports(), "");
}

TEST_F(RemotePushTest, AfterARefusalOfAllNothingIsSent) {
  for (int i = 0; i < 4; ++i) publish(store(), key_of(i));
  const RemoteCache cache(store(), writing("status/403"));

  cache.push_later(key_of(0), 100);
  EXPECT_TRUE(cache.flush({}));
  for (int i = 1; i < 4; ++i) cache.push_later(key_of(i), 100);
  EXPECT_TRUE(cache.flush({}));

  EXPECT_EQ(counts(cache).dropped, 3);
  EXPECT_EQ(server_->requests().size(), 2U);
  EXPECT_THAT(cache.take_reports(), HasSubstr("403"));
}

TEST_F(RemotePushTest, WhatWaitsIsBoundedAndDroppedAtTheEnd) {
  for (int i = 0; i < 4; ++i) publish(store(), key_of(i));
  RemoteSettings slow = writing("slow-first-byte");
  slow.most_waiting_bytes = 250;
  std::shared_ptr<const RemoteServer> server;
  const auto begin = Clock::now();
  {
    server = std::make_shared<const RemoteServer>(slow);
    const RemoteQueue queue(server, store());
    for (int i = 0; i < 4; ++i) queue.add(key_of(i), 100);
    EXPECT_EQ(server->counts().dropped, 2);

    EXPECT_FALSE(queue.flush({.deadline = Clock::now() + 50ms, .stop = {}}));
  }

  EXPECT_LT(Clock::now() - begin, k_slack);
  EXPECT_EQ(server->counts().dropped, 4);
}

TEST_F(RemotePushTest, AnEntryThatIsGoneIsReported) {
  const RemoteCache cache(store(), writing("ok"));

  cache.push_later(key_of(1), 100);
  EXPECT_TRUE(cache.flush({}));

  EXPECT_NE(cache.take_reports(), "");
  EXPECT_EQ(counts(cache).written, 0);
}

TEST(CircuitBreaker, OpensAfterFailuresInARowAndLetsOneTryAfterTheRest) {
  CircuitBreaker breaker({.failures = 3, .rest = 60s});
  const CircuitBreaker::Clock::time_point now{};

  EXPECT_FALSE(breaker.failed(now));
  EXPECT_FALSE(breaker.failed(now));
  breaker.succeeded();
  EXPECT_FALSE(breaker.failed(now));
  EXPECT_FALSE(breaker.failed(now));
  EXPECT_TRUE(breaker.lets_try(now));
  EXPECT_TRUE(breaker.failed(now));

  EXPECT_FALSE(breaker.lets_try(now + 59s));
  EXPECT_FALSE(breaker.failed(now + 59s));  // one that was under way
  EXPECT_TRUE(breaker.lets_try(now + 60s));
  EXPECT_FALSE(breaker.lets_try(now + 60s));  // one at a time
  EXPECT_TRUE(breaker.failed(now + 60s));
  EXPECT_FALSE(breaker.lets_try(now + 119s));
  EXPECT_TRUE(breaker.lets_try(now + 120s));
  breaker.gave_up();
  EXPECT_TRUE(breaker.lets_try(now + 120s));
  breaker.succeeded();
  EXPECT_TRUE(breaker.lets_try(now + 120s));
  EXPECT_TRUE(breaker.lets_try(now + 120s));
}

}  // namespace
}  // namespace spjit

#include "compiler/code_cache.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/hash.hpp"
#include "kernels/kernel_record.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using spjit::testing_support::TemporaryDirectory;

std::string key_of(const std::string& text) { return KeyBuilder().field("text", text).hex(); }

SharedCode some_code(const std::string& cubin) { return {cubin, "nvJitLink 13.0", "ptx", "", 7}; }

/// Counts how often code is made.
struct Maker {
  std::atomic<int> calls = 0;
  std::function<SharedCode()> make(const std::string& cubin) {
    return [this, cubin] {
      ++calls;
      return some_code(cubin);
    };
  }
};

std::optional<LayeredCache> cache_in(const TemporaryDirectory& directory) {
  return LayeredCache(CacheStore(directory.path(), SPJIT_VERSION), {});
}

TEST(CodeCache, MakesCodeOfAKeyOnce) {
  CodeCache codes;
  Maker maker;

  const SharedCode first = codes.find(key_of("a"), maker.make("one"), {}, {});
  const SharedCode again = codes.find(key_of("a"), maker.make("two"), {}, {});
  const SharedCode other = codes.find(key_of("b"), maker.make("three"), {}, {});

  EXPECT_EQ(first.cubin, "one");
  EXPECT_EQ(first.build_ms, 7);
  EXPECT_EQ(again.cubin, "one");
  EXPECT_EQ(again.toolchain, "nvJitLink 13.0");
  EXPECT_EQ(again.build_ms, 0);
  EXPECT_EQ(other.cubin, "three");
  EXPECT_EQ(maker.calls, 2);
}

TEST(CodeCache, FindsInACacheWhatAnotherProcessPublished) {
  const TemporaryDirectory directory;
  Maker maker;
  static_cast<void>(CodeCache().find(key_of("a"), maker.make("one"), cache_in(directory), {}));

  const SharedCode found =
      CodeCache().find(key_of("a"), maker.make("two"), cache_in(directory), {});

  EXPECT_EQ(found.cubin, "one");
  EXPECT_EQ(found.toolchain, "nvJitLink 13.0");
  EXPECT_EQ(found.compiled_from, "ptx");
  EXPECT_EQ(found.build_ms, 0);
  EXPECT_EQ(maker.calls, 1);
}

TEST(CodeCache, TakesNoEntryForCodeThatIsAKernel) {
  const TemporaryDirectory directory;
  const std::string bytes = "a kernel";
  const std::vector<CacheFile> files = {{"kernel.cubin", std::as_bytes(std::span(bytes))}};
  cache_in(directory)->publish(
      key_of("a"), files,
      {{"family", "csr"}, {"toolchain", ""}, {"compiled_from", "ptx"}, {"note", ""}});
  Maker maker;

  EXPECT_EQ(CodeCache().find(key_of("a"), maker.make("code"), cache_in(directory), {}).cubin,
            "code");
}

TEST(CodeCache, MakesCodeWhoseRecordIsDamaged) {
  const TemporaryDirectory directory;
  const std::string bytes = "code";
  const std::vector<CacheFile> files = {{"kernel.cubin", std::as_bytes(std::span(bytes))}};
  cache_in(directory)->publish(key_of("a"), files, code_record());
  Maker maker;

  EXPECT_EQ(CodeCache().find(key_of("a"), maker.make("new"), cache_in(directory), {}).cubin, "new");
}

TEST(CodeCache, OfACacheThatCannotBeWrittenIsStillCode) {
  const TemporaryDirectory directory;
  const LayeredCache cache(CacheStore(directory.path() / "cache", SPJIT_VERSION), {});
  std::ofstream(directory.path() / "cache") << "a file where the directory would be";
  Maker maker;

  EXPECT_EQ(CodeCache().find(key_of("a"), maker.make("one"), cache, {}).cubin, "one");
  EXPECT_THROW(cache.publish(key_of("a"), {}, code_record()), CacheError);
}

TEST(CodeCache, KeepsNothingOfAFailure) {
  CodeCache codes;
  Maker maker;
  const auto fail = []() -> SharedCode { throw CompileFailed("no code"); };

  EXPECT_THROW(static_cast<void>(codes.find(key_of("a"), fail, {}, {})), CompileFailed);
  EXPECT_EQ(codes.find(key_of("a"), maker.make("one"), {}, {}).cubin, "one");
}

TEST(CodeCacheThreads, MakeCodeOfAKeyOnce) {
  CodeCache codes;
  Maker maker;
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) {
        const std::string name = std::to_string(k);
        if (codes.find(key_of(name), maker.make(name), {}, {}).cubin == name) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(maker.calls, 50);
  EXPECT_EQ(right, 400);
}

}  // namespace

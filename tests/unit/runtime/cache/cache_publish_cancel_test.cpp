#include <gtest/gtest.h>

#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "runtime/cache/cache_store.hpp"
#include "spjit/error.hpp"
#include "tests/support/files/system_testing.hpp"

namespace spjit {
namespace {

namespace fs = std::filesystem;

TEST(CachePublishing, ThatIsToldToStopLeavesNoEntryAndNoTemporaryFile) {
  const test::ScratchDirectory scratch;
  const CacheStore cache(scratch.path() / "cache", "0.1.0");
  const std::vector<std::byte> bytes = test::to_bytes("machine code");
  const std::vector<CacheFile> files = {{.name = "kernel.o", .bytes = bytes}};
  const std::string key(64, 'a');
  std::stop_source stop;
  Cancellation cancel;
  cancel.stop = stop.get_token();
  stop.request_stop();

  EXPECT_THROW(cache.publish(key, files, nullptr, cancel), Cancelled);

  EXPECT_FALSE(cache.lookup(key).entry);
  EXPECT_TRUE(fs::is_empty(scratch.path() / "cache" / "tmp"));
  EXPECT_EQ(cache.publish(key, files, nullptr), PublishResult::published);
}

}  // namespace
}  // namespace spjit

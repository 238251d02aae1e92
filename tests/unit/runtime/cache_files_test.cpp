#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <stop_token>

#include "base/file_descriptor.hpp"
#include "cache_testing.hpp"
#include "spjit/error.hpp"

namespace spjit::test {
namespace {

namespace fs = std::filesystem;

TEST_F(CacheStoreTest, AFileThatIsALinkToTheRightBytesIsNotRead) {
  const CacheStore cache = store();
  publish(cache, key_of(1));
  const fs::path file = entry(key_of(1)) / "kernel.o";
  const fs::path elsewhere = root().parent_path() / "elsewhere.o";
  fs::rename(file, elsewhere);
  fs::create_symlink(elsewhere, file);

  EXPECT_FALSE(cache.lookup(key_of(1)).entry);
}

TEST_F(CacheStoreTest, PublishingAsksOnceMoreWhenAllIsWritten) {
  const CacheStore cache = store();
  std::stop_source stop;
  stop.request_stop();
  Cancellation cancel;
  cancel.stop = stop.get_token();

  // Without files there is no other place to ask.
  EXPECT_THROW(cache.publish(key_of(1), {}, nullptr, cancel), Cancelled);
  EXPECT_FALSE(cache.lookup(key_of(1)).entry);
}

TEST(CacheFiles, AreReadUpToTheirLimit) {
  const ScratchDirectory scratch;
  write_bytes(scratch.path() / "ten", to_bytes("ten bytes."));
  const FileDescriptor directory = open_directory(scratch.path());
  const auto read = [&](std::int64_t limit_bytes) {
    return read_file(open_file(directory, "ten"), "ten", limit_bytes).size;
  };

  EXPECT_EQ(read(10), 10U);
  EXPECT_THROW(static_cast<void>(read(9)), CacheError);
}

}  // namespace
}  // namespace spjit::test

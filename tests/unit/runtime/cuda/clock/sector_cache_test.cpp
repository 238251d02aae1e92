// A replay finds what is there, and what came last stays.

#include "runtime/cuda/clock/sector_cache.hpp"

#include <gtest/gtest.h>

namespace spjit {
namespace {

TEST(SectorCache, FindsASectorFromItsFillOn) {
  SectorCache cache(1024);

  EXPECT_LT(cache.find(5), 0);
  cache.fill(5, 77);

  EXPECT_EQ(cache.find(5), 77);
  EXPECT_LT(cache.find(6), 0) << "another sector of the line";
  EXPECT_EQ(cache.hits(), 1U);
  EXPECT_EQ(cache.misses(), 2U);
}

TEST(SectorCache, ReplacesTheLineThatWasUsedLongestAgo) {
  SectorCache cache(2 * 128);  // two lines, one set
  cache.fill(0, 1);
  cache.fill(4, 1);
  static_cast<void>(cache.find(0));

  cache.fill(8, 1);

  EXPECT_GE(cache.find(0), 0);
  EXPECT_LT(cache.find(4), 0);
  EXPECT_GE(cache.find(8), 0);
}

TEST(SectorCache, KeepsAsMuchAsItHasRoomFor) {
  SectorCache cache(64 << 10);
  for (std::uint64_t line = 0; line < 256; ++line) cache.fill(line * 4, 1);
  std::uint64_t kept = 0;
  for (std::uint64_t line = 0; line < 256; ++line) kept += cache.find(line * 4) >= 0 ? 1 : 0;

  EXPECT_GT(kept, 240U);
}

TEST(SectorCache, OneWithoutRoomKeepsNothing) {
  SectorCache cache(0);
  cache.fill(1, 1);

  EXPECT_LT(cache.find(1), 0);
}

}  // namespace
}  // namespace spjit

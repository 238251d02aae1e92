// A replay finds what is there, and what came last stays.

#include "clock/sector_cache.hpp"

#include <gtest/gtest.h>

namespace spjit {
namespace {

TEST(SectorCache, FindsASectorFromItsFillOn) {
  SectorCache cache(1024);

  EXPECT_LT(cache.find(5), 0);
  cache.fill(5, 0, 77);

  EXPECT_EQ(cache.find(5), 77);
  EXPECT_LT(cache.find(6), 0) << "another sector of the line";
  EXPECT_EQ(cache.hits(), 1U);
  EXPECT_EQ(cache.misses(), 2U);
}

TEST(SectorCache, ReplacesTheLineThatWasUsedLongestAgo) {
  SectorCache cache(2 * 128);  // two lines, one set
  cache.fill(0, 0, 1);
  cache.fill(4, 0, 1);
  static_cast<void>(cache.find(0));

  cache.fill(8, 0, 1);

  EXPECT_GE(cache.find(0), 0);
  EXPECT_LT(cache.find(4), 0);
  EXPECT_GE(cache.find(8), 0);
}

TEST(SectorCache, KeepsAsMuchAsItHasRoomFor) {
  SectorCache cache(64 << 10);
  for (std::uint64_t line = 0; line < 256; ++line) cache.fill(line * 4, 0, 1);
  std::uint64_t kept = 0;
  for (std::uint64_t line = 0; line < 256; ++line) kept += cache.find(line * 4) >= 0 ? 1U : 0U;

  EXPECT_GT(kept, 240U);
}

TEST(SectorCache, ALineThatWaitsForItsSectorsIsNotReplaced) {
  SectorCache cache(2 * 128, 1);
  cache.fill(0, 0, 100);
  cache.fill(4, 0, 50);
  static_cast<void>(cache.find(4));

  EXPECT_EQ(cache.room_from(8, 10), 50);
  EXPECT_EQ(cache.room_from(8, 70), 70);
  EXPECT_EQ(cache.room_from(1, 10), 10) << "another sector of a line that is there";
  cache.fill(8, 60, 200);

  EXPECT_GE(cache.find(0), 0) << "used longer ago, but on its way";
  EXPECT_LT(cache.find(4), 0);
}

TEST(SectorCache, SetsByAddressMeetWhereADistanceIsTheirs) {
  SectorCache cache(8 * 128, 4);  // two lines a set
  for (const std::uint64_t line : {0U, 4U, 8U}) cache.fill(line * 4, 10, 5);
  cache.fill(1 * 4, 10, 5);

  EXPECT_LT(cache.find(0), 0);
  EXPECT_GE(cache.find(4 * 4), 0);
  EXPECT_GE(cache.find(1 * 4), 0);
}

TEST(SectorCache, OneWithoutRoomKeepsNothing) {
  SectorCache cache(0);
  cache.fill(1, 0, 1);

  EXPECT_LT(cache.find(1), 0);
}

}  // namespace
}  // namespace spjit

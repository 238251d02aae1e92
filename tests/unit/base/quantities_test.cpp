#include "base/quantities.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spjit/error.hpp"

namespace spjit {
namespace {

using testing::HasSubstr;

TEST(ByteSize, ReadsBytesAndPowersOf1024) {
  EXPECT_EQ(parse_byte_size("0", "size"), 0);
  EXPECT_EQ(parse_byte_size("500", "size"), 500);
  EXPECT_EQ(parse_byte_size("3K", "size"), 3072);
  EXPECT_EQ(parse_byte_size("2m", "size"), 2 << 20);
  EXPECT_EQ(parse_byte_size("4G", "size"), std::int64_t{4} << 30);
  EXPECT_EQ(parse_byte_size("1t", "size"), std::int64_t{1} << 40);
  EXPECT_EQ(parse_byte_size("8388607T", "size"), std::int64_t{8388607} << 40);
}

TEST(ByteSize, RefusesAnythingElseAndSaysWhatItExpects) {
  for (const char* text : {"", "G", "-1", "-1K", "1.5G", "2GB", "2 G", " 2", "2X", "0x10",
                           "8388608T", "99999999999999999999"}) {
    try {
      static_cast<void>(parse_byte_size(text, "SPJIT_CACHE_SIZE"));
      ADD_FAILURE() << "taken: " << text;
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr(std::string("SPJIT_CACHE_SIZE is '") + text + "'"));
      EXPECT_THAT(error.what(), HasSubstr("such as 2G"));
    }
  }
}

TEST(Quantities, TimesHaveAUnit) {
  EXPECT_EQ(parse_duration("90s").count(), 90);
  EXPECT_EQ(parse_duration("15m").count(), 900);
  EXPECT_EQ(parse_duration("12h").count(), 43'200);
  EXPECT_EQ(parse_duration("30d").count(), 2'592'000);
  EXPECT_EQ(parse_duration("4w").count(), 2'419'200);
  EXPECT_EQ(parse_duration("0s").count(), 0);
  EXPECT_EQ(parse_duration("36500d").count(), 3'153'600'000);
}

TEST(Quantities, TimesThatAreNoneAreRefused) {
  for (const char* text : {"", "30", "d", "-1d", "-0d", "1.5h", "1 d", "30D", "1y", "1ms", "36501d",
                           "9223372036854775807s", "99999999999999999999s"}) {
    EXPECT_THROW(static_cast<void>(parse_duration(text)), InvalidArgument) << text;
  }
}

TEST(Quantities, ErrorsSayWhatWasGivenOnOneLine) {
  try {
    static_cast<void>(parse_duration("two\n\x1b[2J"));
    FAIL() << "accepted";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("'two??[2J'"));
    EXPECT_THAT(error.what(), HasSubstr("30d"));
  }
}

}  // namespace
}  // namespace spjit

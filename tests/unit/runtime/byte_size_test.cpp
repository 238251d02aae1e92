#include "base/byte_size.hpp"

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

}  // namespace
}  // namespace spjit

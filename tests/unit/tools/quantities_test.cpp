#include "tools/quantities.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spjit/error.hpp"

namespace {

using spjit::InvalidArgument;
using spjit::cli::parse_duration;
using testing::HasSubstr;

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

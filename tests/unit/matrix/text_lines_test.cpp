#include "matrix/text_lines.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "test_support.hpp"

namespace spjit {
namespace {

TEST(TextLines, CountsLinesAndDropsBothKindsOfLineEnd) {
  TextLines lines("a\r\n\nlast", "file");

  EXPECT_TRUE(lines.next());
  EXPECT_EQ(lines.line(), "a");
  EXPECT_TRUE(lines.next());
  EXPECT_EQ(lines.line(), "");
  EXPECT_TRUE(lines.next());
  EXPECT_EQ(lines.line(), "last");
  EXPECT_EQ(lines.number(), 3);
  EXPECT_FALSE(lines.next());
  EXPECT_EQ(lines.number(), 3);
}

TEST(TextLines, FailsWithFileLineAndReason) {
  TextLines lines("a\nb\n", "some file");
  static_cast<void>(lines.next());
  static_cast<void>(lines.next());

  EXPECT_EQ(test::message_of<IoError>([&] { lines.fail("no"); }), "some file:2: no");
}

TEST(Words, SeparatesAtBlanksAndCommasWhereAsked) {
  Words blanks("  1,2\t3 ");
  Words commas("1, 2,3", true);

  EXPECT_EQ(blanks.next(), "1,2");
  EXPECT_EQ(blanks.next(), "3");
  EXPECT_EQ(blanks.next(), "");
  EXPECT_EQ(commas.next(), "1");
  EXPECT_EQ(commas.next(), "2");
  EXPECT_EQ(commas.next(), "3");
  EXPECT_EQ(commas.next(), "");
}

TEST(QuotedWord, CutsLongWordsAndHidesUnprintableBytes) {
  EXPECT_EQ(quoted_word("a\nb\x80"), "'a?b?'");
  EXPECT_EQ(quoted_word(std::string(100, 'x')), "'" + std::string(24, 'x') + "...'");
}

TEST(ParseInteger, TakesWholeWordsOnly) {
  EXPECT_EQ(parse_integer("42"), 42);
  EXPECT_EQ(parse_integer("+42"), 42);
  EXPECT_EQ(parse_integer("-1"), -1);
  EXPECT_EQ(parse_integer("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  for (const char* word : {"", "+", "-", "+-1", "1.0", "1x", "0x10", "9223372036854775808"}) {
    EXPECT_EQ(parse_integer(word), std::nullopt) << word;
  }
}

TEST(ParseFloat, RoundsOnceToTheNearest) {
  // 1 + 2^-24 + 2^-60: above the middle of two fp32 numbers by less than a double can tell.
  EXPECT_EQ(
      parse_float("1.000000059604644775390625867361737988403547205962240695953369140625").value,
      std::nextafter(1.0F, 2.0F));
  EXPECT_EQ(parse_float("+.5").value, 0.5F);
  EXPECT_EQ(parse_float("-1.5E3").value, -1500.0F);
  EXPECT_TRUE(std::signbit(parse_float("-0").value));
}

TEST(ParseFloat, TakesNanAndInfinityInAnyCase) {
  EXPECT_TRUE(std::isnan(parse_float("NaN").value));
  EXPECT_EQ(parse_float("inf").value, std::numeric_limits<float>::infinity());
  EXPECT_EQ(parse_float("-Infinity").value, -std::numeric_limits<float>::infinity());
}

TEST(ParseFloat, RoundsTinyNumbersToDenormalsAndZero) {
  EXPECT_EQ(parse_float("1e-45").value, std::numeric_limits<float>::denorm_min());
  for (const char* word : {"1e-46", "1e-400", "1e-99999999999999999999", "0.0e99999999999",
                           "100000e-500", "0.0000000000000000000000000000000000000000000000001"}) {
    EXPECT_EQ(parse_float(word).error, NumberError::none) << word;
    EXPECT_EQ(parse_float(word).value, 0.0F) << word;
  }
  EXPECT_TRUE(std::signbit(parse_float("-1e-400").value));
}

TEST(ParseFloat, RefusesWhatDoesNotFit) {
  EXPECT_EQ(parse_float("3.4028235e38").value, std::numeric_limits<float>::max());
  for (const char* word : {"3.4028236e38", "-1e39", "1e400", "1e99999999999999999999", "0.001e42",
                           "1000000000000000000000000000000000000000"}) {
    EXPECT_EQ(parse_float(word).error, NumberError::too_large) << word;
  }
}

TEST(ParseFloat, RefusesWhatIsNotANumber) {
  for (const char* word : {"", "+", "abc", "1d0", "1e", "0x1p3", "1,5", "--1", "1 "}) {
    EXPECT_EQ(parse_float(word).error, NumberError::not_a_number) << word;
  }
}

}  // namespace
}  // namespace spjit

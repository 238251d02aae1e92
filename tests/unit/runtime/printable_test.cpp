#include "base/printable.hpp"

#include <gtest/gtest.h>

#include <string>

#include "spjit/error.hpp"

namespace spjit {
namespace {

TEST(OneLine, KeepsTextOfAnyLanguage) {
  const std::string text = "layer \u00e9\u4e2d\U0001F600 ~/w (1).npz";

  EXPECT_EQ(one_line(text), text);
}

TEST(OneLine, ShowsControlCharactersAsQuestionMarks) {
  EXPECT_EQ(one_line("a\x1b[31mb\r\n\tc\x7f"), "a?[31mb???c?");
  EXPECT_EQ(one_line(std::string("a\0b", 3)), "a?b");
  EXPECT_EQ(one_line("\u0080x\u009by"), "?x?y");
}

TEST(OneLine, ShowsSeparatorsAndSignsOfDirectionAsQuestionMarks) {
  EXPECT_EQ(one_line("a\u2028b\u2029c"), "a?b?c");
  EXPECT_EQ(one_line("\u061c\u200e\u200f\u202a\u202e\u2066\u2069"), "???????");
  EXPECT_EQ(one_line("\u200d\u2010\u202f"), "\u200d\u2010\u202f");
}

TEST(OneLine, ShowsBytesThatAreNoUtf8AsQuestionMarks) {
  EXPECT_EQ(one_line("\x80"), "?");
  EXPECT_EQ(one_line("\xc0\xaf"), "??");            // an ASCII character in two bytes
  EXPECT_EQ(one_line("\xe0\x82\x9b"), "???");       // U+009B in three
  EXPECT_EQ(one_line("\xf0\x80\x82\x9b"), "????");  // and in four
  EXPECT_EQ(one_line("\xed\xa0\x80"), "???");       // a surrogate
  EXPECT_EQ(one_line("\xf4\x90\x80\x80"), "????");  // past the last character
  EXPECT_EQ(one_line("\xe4\xb8"), "??");            // cut short
  EXPECT_EQ(one_line("\xe4"
                     "b\xad"),
            "?b?");
}

TEST(Error, SaysWhatItSaysInOneLine) {
  const IoError error("a\nb\x1b[2J.mtx: cannot open");

  EXPECT_STREQ(error.what(), "a?b?[2J.mtx: cannot open");
}

}  // namespace
}  // namespace spjit

#include "base/json_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/printable.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string refusal(const std::string& text) {
  try {
    static_cast<void>(parse_json(text));
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

std::string nested(int depth) {
  const auto count = static_cast<std::size_t>(depth);
  return std::string(count, '[') + std::string(count, ']');
}

TEST(JsonText, IsNestedToALimit) {
  EXPECT_EQ(refusal(nested(k_deepest_json)), "none");
  EXPECT_EQ(refusal(nested(k_deepest_json + 1)), "nested deeper than 32");
  EXPECT_EQ(refusal(std::string(10'000'000, '[')), "nested deeper than 32");
}

TEST(JsonText, CountsNoBracketsInStrings) {
  EXPECT_EQ(refusal(std::string("[\"") + std::string(100, '[') + "\"]"), "none");
  EXPECT_EQ(refusal(std::string("[\"\\\"") + std::string(100, '{') + "\\\\\"]"), "none");
}

TEST(JsonText, RefusesWhatIsNoJsonInOneLine) {
  const std::string message = refusal("{\"a\":\n\"b\x01\n\xFF");

  EXPECT_THAT(message, StartsWith("parse error at line 2"));
  EXPECT_EQ(message, printable(message));
}

TEST(JsonText, ReadsManySmallObjectsInLinearTime) {
  // Quadratic time would not end: 10^12 steps.
  std::string text = "[{}";
  for (int i = 1; i < 1'000'000; ++i) text += ",{}";

  EXPECT_EQ(parse_json(text + "]").size(), 1'000'000U);
}

TEST(JsonInteger, IsOneInRange) {
  EXPECT_EQ(json_integer(-1, "n", -1, 5), -1);
  EXPECT_EQ(json_integer(std::uint64_t{5}, "n", -1, 5), 5);
}

TEST(JsonInteger, IsNothingElse) {
  const auto refusal_of = [](const nlohmann::json& value) -> std::string {
    try {
      static_cast<void>(json_integer(value, "n", -1, 5));
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };

  EXPECT_EQ(refusal_of(6), "n is 6; expected an integer from -1 to 5");
  EXPECT_EQ(refusal_of(1.0), "n is 1.0; expected an integer from -1 to 5");
  EXPECT_EQ(refusal_of(true), "n is true; expected an integer from -1 to 5");
  EXPECT_EQ(refusal_of(UINT64_MAX), "n is 18446744073709551615; expected an integer from -1 to 5");
  EXPECT_THAT(refusal_of(std::string(1000, 'x')), HasSubstr("\"xxxxx"));
  EXPECT_LT(refusal_of(std::string(1000, 'x')).size(), 100U);
}

TEST(QuotedJson, IsOneLineOfAscii) {
  EXPECT_EQ(quoted_json("a\nb \u00b5"), "\"a\\nb \\u00b5\"");
  EXPECT_EQ(quoted_json("\xFF"), "\"\\ufffd\"");
}

TEST(Printable, ReplacesWhatBreaksALineAndShortens) {
  EXPECT_EQ(printable("a\nb\x1b[7m"), "a?b?[7m");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
}

TEST(JsonText, FindsAMemberThatAnObjectHasTwice) {
  EXPECT_EQ(find_repeated_member(R"({"a": 1, "b": {"a": [{"c": 1}, {"c": 2}]}})"), std::nullopt);
  EXPECT_EQ(find_repeated_member("[3]"), std::nullopt);
  EXPECT_EQ(find_repeated_member(R"({"a": 1, "b": 2, "a": 3})"), "a");
  EXPECT_EQ(find_repeated_member(R"([{"a": {"c": 1, "\u0063": 2}}])"), "c");
}

}  // namespace
}  // namespace spjit

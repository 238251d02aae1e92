#include "runtime/cache/cache_record.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/hash.hpp"
#include "spjit/error.hpp"
#include "tests/support/files/system_testing.hpp"

namespace spjit {
namespace {

using testing::HasSubstr;

CacheRecord example() {
  return {.spjit_version = "0.1.0",
          .key = std::string(64, 'a'),
          .created = "2025-01-31T23:59:59Z",
          .files = {{.name = "kernel.o", .bytes = 12, .checksum = std::string(32, '1')}},
          .kernel = {{"tile", {28, 16}}, {"note", "5 \u00b5s"}}};
}

TEST(CacheRecord, HasTheFormatThatOlderProgramsRead) {
  // A change here is a change of the format: raise k_cache_format. The checksum is xxhsum's.
  const std::string expected =
      "{\"checksum\": \"0a8767e557a009cadd8935a2bb73967f\",\n"
      " \"created\": \"2025-01-31T23:59:59Z\",\n"
      " \"files\": [\n"
      "  {\n"
      "   \"bytes\": 12,\n"
      "   \"checksum\": \"11111111111111111111111111111111\",\n"
      "   \"name\": \"kernel.o\"\n"
      "  }\n"
      " ],\n"
      " \"format\": 1,\n"
      " \"kernel\": {\n"
      "  \"note\": \"5 \u00b5s\",\n"
      "  \"tile\": [\n"
      "   28,\n"
      "   16\n"
      "  ]\n"
      " },\n"
      " \"key\": \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",\n"
      " \"spjit\": \"0.1.0\"\n"
      "}\n";

  EXPECT_EQ(write_cache_record(example()), expected);
}

TEST(CacheRecord, ReadsBackWhatItWrote) {
  const CacheRecord record = parse_cache_record(write_cache_record(example()));

  EXPECT_EQ(record.spjit_version, "0.1.0");
  EXPECT_EQ(record.key, std::string(64, 'a'));
  EXPECT_EQ(record.created, "2025-01-31T23:59:59Z");
  ASSERT_EQ(record.files.size(), 1U);
  EXPECT_EQ(record.files[0].name, "kernel.o");
  EXPECT_EQ(record.files[0].bytes, 12);
  EXPECT_EQ(record.files[0].checksum, std::string(32, '1'));
  EXPECT_EQ(record.kernel, example().kernel);
}

TEST(CacheRecord, IsOneJsonObject) {
  const auto value = nlohmann::json::parse(write_cache_record(example()));

  EXPECT_EQ(value.at("checksum").get<std::string>().size(), 32U);
  EXPECT_EQ(value.size(), 7U);
}

TEST(CacheRecord, WritesTextThatIsNotUtf8) {
  CacheRecord record = example();
  record.kernel = "bad \xFF text";

  EXPECT_EQ(parse_cache_record(write_cache_record(record)).kernel, "bad \uFFFD text");
}

TEST(CacheRecord, NoticesEveryChangedByteAndEveryPrefix) {
  const std::string text = write_cache_record(example());

  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_THROW(static_cast<void>(parse_cache_record(changed)), CacheError) << i;
    EXPECT_THROW(static_cast<void>(parse_cache_record(text.substr(0, i))), CacheError) << i;
  }
}

/// `rest` under a checksum that is right.
std::string sealed(const std::string& rest) {
  return "{\"checksum\": \"" + checksum_hex(test::to_bytes(rest)) + "\",\n" + rest;
}

TEST(CacheRecord, RefusesARightChecksumOverWrongContent) {
  for (const char* rest : {"", "}", "not json", "\"format\": 1}", "\"format\": \"1\"}",
                           "\"format\": 1, \"spjit\": 3}"}) {
    EXPECT_THROW(static_cast<void>(parse_cache_record(sealed(rest))), CacheError) << rest;
  }
}

TEST(CacheRecord, RefusesMembersAndFormsThatItDoesNotWrite) {
  const std::string text = write_cache_record(example());
  const std::string rest = text.substr(text.find('\n') + 1);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = rest;
    changed.replace(changed.find(from), from.size(), to);
    return sealed(changed);
  };
  ASSERT_EQ(sealed(rest), text);

  EXPECT_THROW(static_cast<void>(parse_cache_record(sealed(rest + "\n"))), CacheError);
  EXPECT_THROW(static_cast<void>(parse_cache_record(with(" \"created\"", "\"created\""))),
               CacheError);
  EXPECT_THROW(
      static_cast<void>(parse_cache_record(with("\"format\"", "\"more\": 1,\n \"format\""))),
      CacheError);
  EXPECT_THROW(static_cast<void>(parse_cache_record(with("28,", "2.8e1,"))), CacheError);
}

TEST(CacheRecord, RefusesSizesThatAreNone) {
  for (const char* bytes : {"-1", "1.5", "true", "1e3", "9223372036854775808", "281474976710657"}) {
    std::string text = write_cache_record(example());
    text = text.substr(text.find('\n') + 1);
    text.replace(text.find("12,"), 2, bytes);

    EXPECT_THROW(static_cast<void>(parse_cache_record(sealed(text))), CacheError) << bytes;
  }
}

TEST(CacheRecord, RefusesADeepOneInOneLine) {
  CacheRecord record = example();
  for (int i = 0; i < 40; ++i) record.kernel = nlohmann::json::array({record.kernel});

  try {
    static_cast<void>(parse_cache_record(write_cache_record(record)));
    FAIL() << "41 levels were read";
  } catch (const CacheError& error) {
    EXPECT_STREQ(error.what(), "record.json is not a record: nested deeper than 32");
  }
}

TEST(CacheRecord, RefusesAnotherFormatByNumber) {
  try {
    static_cast<void>(parse_cache_record(sealed("\"format\": 2}")));
    FAIL() << "accepted format 2";
  } catch (const CacheError& error) {
    EXPECT_THAT(error.what(), HasSubstr("format 2, expected 1"));
  }
}

TEST(CacheRecord, RefusesFileNamesThatLeaveTheEntry) {
  for (const char* name : {"../kernel.o", "/etc/passwd", ".hidden", "", "record.json", "a b"}) {
    CacheRecord record = example();
    record.files[0].name = name;

    EXPECT_THROW(static_cast<void>(parse_cache_record(write_cache_record(record))), CacheError)
        << name;
  }
}

TEST(CacheRecord, RefusesValuesNestedSoDeepThatCopyingThemWouldNeedAsDeepAStack) {
  const auto nested = [](std::size_t depth) {
    return sealed(
        "\"format\": 1, \"spjit\": \"\", \"key\": \"\", \"created\": \"\", \"files\": [], " +
        ("\"kernel\": " + std::string(depth, '[')) + std::string(depth, ']') + "}");
  };

  CacheRecord allowed = example();
  allowed.kernel = nlohmann::json::parse(std::string(30, '[') + std::string(30, ']'));
  EXPECT_NO_THROW(static_cast<void>(parse_cache_record(write_cache_record(allowed))));
  for (const std::size_t depth : {std::size_t{40}, std::size_t{1'000'000}}) {
    EXPECT_THROW(static_cast<void>(parse_cache_record(nested(depth))), CacheError) << depth;
  }
}

TEST(CacheRecord, RefusesFilesThatAreListedTwice) {
  CacheRecord record = example();
  record.files.push_back(record.files[0]);

  EXPECT_THROW(static_cast<void>(parse_cache_record(write_cache_record(record))), CacheError);
}

TEST(CacheKey, IsSixtyFourLowercaseHexadecimalDigits) {
  EXPECT_TRUE(is_cache_key(std::string(64, '0')));
  EXPECT_TRUE(is_cache_key(KeyBuilder().hex()));
  EXPECT_FALSE(is_cache_key(std::string(63, '0')));
  EXPECT_FALSE(is_cache_key(std::string(65, '0')));
  EXPECT_FALSE(is_cache_key(std::string(64, 'A')));
  EXPECT_FALSE(is_cache_key(std::string(64, 'g')));
  EXPECT_FALSE(is_cache_key("../" + std::string(61, '0')));
}

}  // namespace
}  // namespace spjit

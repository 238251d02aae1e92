#include "base/hash.hpp"

#include <gtest/gtest.h>

#include <set>
#include <stop_token>
#include <utility>
#include <vector>

#include "spjit/error.hpp"
#include "tests/support/files/system_testing.hpp"

namespace spjit {
namespace {

using test::to_bytes;

// The digests below come from Python's hashlib over the record grammar of hash.hpp.

TEST(KeyBuilder, HashesTheRecordOfItsGrammar) {
  EXPECT_EQ(KeyBuilder().hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(KeyBuilder().field("n", std::int64_t{512}).field("target", "host").hex(),
            "578e835d985e2848fb269731627a70993d6cb21c1ab0c6769d5cae43a8b352c1");
}

TEST(Sha256, IsThatOfHashlib) {
  EXPECT_EQ(hex_text(sha256({})),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex_text(sha256(to_bytes("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(HexText, HasSoManyLowercaseDigits) {
  EXPECT_EQ(hex_text(to_bytes({0x00, 0x9a, 0xff})), "009aff");
  EXPECT_TRUE(is_hex_text("009aff", 6));
  EXPECT_TRUE(is_hex_text("", 0));
  for (const char* text : {"009af", "009aff0", "009aFf", "009agf", "009a f", "00/aff", "00:aff"}) {
    EXPECT_FALSE(is_hex_text(text, 6)) << text;
  }
}

TEST(KeyBuilder, NoTwoDifferentRecordsCollide) {
  const std::vector<std::byte> eight(8, std::byte{0});
  std::set<std::string> keys;
  std::size_t records = 0;
  const auto add = [&](const KeyBuilder& builder) {
    keys.insert(builder.hex());
    ++records;
  };

  add(KeyBuilder());
  add(KeyBuilder().field("", ""));
  add(KeyBuilder().field("", "").field("", ""));
  add(KeyBuilder().field("ab", "c"));
  add(KeyBuilder().field("a", "bc"));
  add(KeyBuilder().field("abc", ""));
  add(KeyBuilder().field("", "abc"));
  add(KeyBuilder().field("a", "b").field("c", ""));
  add(KeyBuilder().field("a", "").field("b", "c"));
  add(KeyBuilder().field("x", std::int64_t{0}));
  add(KeyBuilder().field("x", std::span<const std::byte>(eight)));
  add(KeyBuilder().field("x", std::string_view("\0\0\0\0\0\0\0\0", 8)));
  add(KeyBuilder().field("x", "1").field("y", "2"));
  add(KeyBuilder().field("y", "2").field("x", "1"));
  add(KeyBuilder().field("x", "1y2"));

  EXPECT_EQ(keys.size(), records);
}

TEST(KeyBuilder, AFieldThatImitatesTheDelimitersIsStillOneField) {
  // The bytes of {"a": "", "b": ""} without the first tag and name, as one value.
  std::string imitation(8, '\0');
  imitation += 's';
  imitation += std::string("\1\0\0\0\0\0\0\0b", 9);
  imitation += std::string(8, '\0');

  EXPECT_NE(KeyBuilder().field("a", imitation).hex(),
            KeyBuilder().field("a", "").field("b", "").hex());
}

TEST(KeyBuilder, GoesOnAfterHex) {
  KeyBuilder builder;
  builder.field("a", std::int64_t{1});
  const std::string first = builder.hex();

  EXPECT_EQ(builder.hex(), first);
  builder.field("b", std::int64_t{2});
  EXPECT_EQ(builder.hex(),
            KeyBuilder().field("a", std::int64_t{1}).field("b", std::int64_t{2}).hex());
  const KeyBuilder moved = std::move(builder);
  EXPECT_NE(moved.hex(), first);
}

TEST(KeyBuilder, StopsWhenItIsToldTo) {
  std::stop_source stop;
  Cancellation cancel;
  cancel.stop = stop.get_token();
  KeyBuilder key(cancel);
  key.field("n", std::int64_t{512});
  stop.request_stop();

  EXPECT_THROW(key.field("values", to_bytes("any")), Cancelled);
}

TEST(KeyBuilder, HashesLongFieldsAsOne) {
  const std::vector<std::byte> long_field((std::size_t{9} << 20) + 5, std::byte{7});

  // hashlib over the same record.
  EXPECT_EQ(KeyBuilder().field("x", long_field).hex(),
            "277727a5e831c3b9eadc1d6ac138f18f8aed92a36292bd3bbaddeb225bf9b9cb");
}

TEST(Checksum, IsTheCanonicalXxh3) {
  // `printf '' | xxhsum -H128` and `printf 'spjit' | xxhsum -H128`.
  EXPECT_EQ(checksum_hex({}), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(checksum_hex(to_bytes("spjit")), "a5f6dc816f6c635e9f8a96432510a6df");
}

TEST(Checksum, NoticesEveryFlippedBit) {
  std::vector<std::byte> bytes = to_bytes("a file of some length, longer than one lane of hashing");
  const std::string original = checksum_hex(bytes);

  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_NE(checksum_hex(bytes), original);
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
  EXPECT_EQ(checksum_hex(bytes), original);
}

}  // namespace
}  // namespace spjit

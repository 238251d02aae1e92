#include "spjit/data_type.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "spjit/error.hpp"

namespace spjit {
namespace {

constexpr auto k_no_type = static_cast<DataType>(7);

TEST(DataTypes, AreNamedBothWays) {
  for (int i = 0; i < 7; ++i) {
    const auto type = static_cast<DataType>(i);

    EXPECT_EQ(parse_data_type(to_string(type)), type);
  }
  EXPECT_EQ(to_string(DataType::bf16), "bf16");
  EXPECT_EQ(to_string(k_no_type), "?");
}

TEST(DataTypes, OfUnknownNamesAndNumbersSayWhatThereIs) {
  try {
    static_cast<void>(parse_data_type("fp32"));
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(),
                 "data type \"fp32\" is unknown; expected f32, bf16, f16, i32, i8, u8, i4");
  }
  try {
    static_cast<void>(info_of(k_no_type));
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "the data type is 7; expected 0 to 6");
  }
}

TEST(DataTypes, HaveBytesAlsoBeyond32Bits) {
  constexpr std::int64_t k_many = (std::int64_t{1} << 33) + 1;

  EXPECT_EQ(bytes_of(DataType::f32, k_many), 4 * k_many);
  EXPECT_EQ(bytes_of(DataType::bf16, k_many), 2 * k_many);
  EXPECT_EQ(bytes_of(DataType::u8), 1);
  EXPECT_EQ(bytes_of(DataType::i4, 0), 0);
  EXPECT_EQ(bytes_of(DataType::i4, 1), 1);
  EXPECT_EQ(bytes_of(DataType::i4, k_many), k_many / 2 + 1);
  EXPECT_EQ(bytes_of(DataType::i4, std::numeric_limits<std::int64_t>::max()),
            std::int64_t{1} << 62);
}

TEST(DataTypes, RefuseCountsWhoseBytesCannotBeCounted) {
  EXPECT_THROW(static_cast<void>(bytes_of(DataType::f32, -1)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(bytes_of(DataType::i4, -1)), InvalidArgument);
  EXPECT_NO_THROW(static_cast<void>(bytes_of(DataType::f32, (std::int64_t{1} << 61) - 1)));
  EXPECT_THROW(static_cast<void>(bytes_of(DataType::f32, std::int64_t{1} << 61)), InvalidArgument);
}

TEST(DataTypes, RoundAsTheirUnitRoundoffSays) {
  EXPECT_EQ(info_of(DataType::f32).unit_roundoff, std::ldexp(1.0, -24));
  EXPECT_EQ(info_of(DataType::bf16).unit_roundoff, std::ldexp(1.0, -8));
  EXPECT_EQ(info_of(DataType::f16).unit_roundoff, std::ldexp(1.0, -11));
  EXPECT_EQ(info_of(DataType::i8).unit_roundoff, 0);
  EXPECT_EQ(info_of(DataType::f32).largest, std::numeric_limits<float>::max());
  EXPECT_EQ(info_of(DataType::i32).lowest, std::numeric_limits<std::int32_t>::min());
}

}  // namespace
}  // namespace spjit

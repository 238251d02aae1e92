// Elements of every type, against their definition.

#include "plan/elements.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/support/draw.hpp"
#include "tests/support/narrow_elements.hpp"

namespace spjit {
namespace {

using testing_support::Draw;
using testing_support::narrow_value;
using testing_support::nearest_narrow;

constexpr double k_element_infinity = std::numeric_limits<double>::infinity();
constexpr double k_element_nan = std::numeric_limits<double>::quiet_NaN();

bool same_number(double left, double right) {
  if (std::isnan(left) || std::isnan(right)) return std::isnan(left) && std::isnan(right);
  return left == right && std::signbit(left) == std::signbit(right);
}

std::uint16_t stored_bits(DataType type, double value) {
  std::uint16_t bits = 0;
  store_element(type, &bits, 0, value);
  return bits;
}

class NarrowFloats : public testing::TestWithParam<DataType> {};

TEST_P(NarrowFloats, AllAreWidenedAndStoredAsTheyAre) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto element = static_cast<std::uint16_t>(bits);
    const double expected = narrow_value(GetParam(), bits);

    const double value = load_element(GetParam(), &element, 0);

    ASSERT_TRUE(same_number(value, expected)) << bits;
    ASSERT_TRUE(same_number(rounded_to(GetParam(), value), value)) << bits;
    ASSERT_TRUE(is_exact_in(GetParam(), static_cast<float>(value))) << bits;
    if (std::isnan(value)) continue;
    ASSERT_EQ(stored_bits(GetParam(), value), element);
  }
}

TEST_P(NarrowFloats, BetweenTwoTheNearestIsTakenAndOfHalvesTheEvenOne) {
  const std::uint32_t infinity = GetParam() == DataType::bf16 ? 0x7F80 : 0x7C00;
  for (std::uint32_t bits = 0; bits < infinity - 1; ++bits) {
    const double low = narrow_value(GetParam(), bits);
    const double high = narrow_value(GetParam(), bits + 1);
    const double half = (low + high) / 2;
    const double tiny = (high - low) * 0x1p-30;
    for (const double value : {half, half - tiny, half + tiny, low + tiny, high - tiny, -half}) {
      ASSERT_EQ(stored_bits(GetParam(), value), nearest_narrow(GetParam(), value)) << value;
      ASSERT_FALSE(is_exact_in(GetParam(), static_cast<float>(half))) << half;
    }
  }
}

TEST_P(NarrowFloats, BeyondTheRangeAreInfinitiesAndNanIsQuiet) {
  const DataTypeInfo& info = info_of(GetParam());
  const double step = info.largest * info.unit_roundoff;  // about half of the last distance
  for (const double value : {info.largest + step / 4, info.largest + 4 * step, 1e300,
                             k_element_infinity, -1e300, -k_element_infinity}) {
    EXPECT_EQ(stored_bits(GetParam(), value), nearest_narrow(GetParam(), value)) << value;
  }
  const std::uint32_t quiet = GetParam() == DataType::bf16 ? 0x7FC0 : 0x7E00;
  EXPECT_EQ(stored_bits(GetParam(), k_element_nan) & 0x7FFFU, quiet);
  EXPECT_EQ(stored_bits(GetParam(), -0.0), 0x8000);
}

TEST_P(NarrowFloats, OfRandomNumbersAreTheNearest) {
  Draw draw(7);
  for (int i = 0; i < 200'000; ++i) {
    const double value = std::ldexp(static_cast<double>(draw.between(-(1LL << 52), 1LL << 52)),
                                    static_cast<int>(draw.between(-200, 80)));
    ASSERT_EQ(stored_bits(GetParam(), value), nearest_narrow(GetParam(), value)) << value;
  }
}

INSTANTIATE_TEST_SUITE_P(Elements, NarrowFloats, testing::Values(DataType::bf16, DataType::f16),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST(Elements, OfFloatsAreRoundedOnce) {
  float stored = 0;
  store_element(DataType::f32, &stored, 0, 1 + 0x1p-24 + 0x1p-50);
  EXPECT_EQ(stored, 1 + 0x1p-23F);
  store_element(DataType::f32, &stored, 0, 1 + 0x1p-24);
  EXPECT_EQ(stored, 1);
  EXPECT_EQ(load_element(DataType::f32, &stored, 0), 1);
  EXPECT_TRUE(is_exact_in(DataType::f32, 0.1F));
}

TEST(Elements, OfIntegersRoundHalfToEvenAndSaturate) {
  struct Rounded {
    DataType type;
    double value;
    double expected;
  };
  for (const Rounded& each :
       std::vector<Rounded>{{DataType::i8, 0.5, 0},
                            {DataType::i8, 1.5, 2},
                            {DataType::i8, -2.5, -2},
                            {DataType::i8, 127.4, 127},
                            {DataType::i8, 1000, 127},
                            {DataType::i8, -1000, -128},
                            {DataType::u8, -0.7, 0},
                            {DataType::u8, 254.5, 254},
                            {DataType::u8, 255.5, 255},
                            {DataType::u8, k_element_infinity, 255},
                            {DataType::i32, 2147483647.4, 2147483647.0},
                            {DataType::i32, 4e9, 2147483647.0},
                            {DataType::i32, -k_element_infinity, -2147483648.0},
                            {DataType::i8, k_element_nan, 0}}) {
    std::array<std::byte, 12> memory{};

    store_element(each.type, memory.data(), 2, each.value);

    EXPECT_EQ(load_element(each.type, memory.data(), 2), each.expected) << each.value;
    EXPECT_TRUE(same_number(rounded_to(each.type, each.value), each.expected)) << each.value;
  }
}

TEST(Elements, OfIntegersAreExactWithinTheirRangeAlone) {
  EXPECT_TRUE(is_exact_in(DataType::i4, -8));
  EXPECT_FALSE(is_exact_in(DataType::i4, 8));
  EXPECT_FALSE(is_exact_in(DataType::i8, -129));
  EXPECT_FALSE(is_exact_in(DataType::u8, -1));
  EXPECT_TRUE(is_exact_in(DataType::u8, -0.0F));
  EXPECT_FALSE(is_exact_in(DataType::i32, 2147483648.0F));
  EXPECT_TRUE(is_exact_in(DataType::i32, -2147483648.0F));
  EXPECT_FALSE(is_exact_in(DataType::i8, 0.5F));
  EXPECT_FALSE(is_exact_in(DataType::i8, std::numeric_limits<float>::quiet_NaN()));
  EXPECT_TRUE(is_exact_in(DataType::bf16, std::numeric_limits<float>::quiet_NaN()));
}

}  // namespace
}  // namespace spjit

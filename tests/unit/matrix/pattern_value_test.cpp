#include "matrix/pattern_value.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "matrix/random.hpp"
#include "spjit/matrix_io.hpp"
#include "test_support.hpp"

namespace spjit {
namespace {

// Reference outputs of SplitMix64 seeded with 1234567.
TEST(SplitMix, GivesTheReferenceSequence) {
  constexpr std::uint64_t k_gamma = 0x9E3779B97F4A7C15U;

  EXPECT_EQ(split_mix(1234567), 6457827717110365317U);
  EXPECT_EQ(split_mix(1234567 + k_gamma), 3203168211198807973U);
  EXPECT_EQ(split_mix(1234567 + 2 * k_gamma), 9817491932198370423U);
}

// Computed in Python, with integers of any size, from the definition in matrix_io.hpp.
TEST(PatternValue, GivesTheDefinedBits) {
  EXPECT_EQ(pattern_value(1, 0, 0), 3246594 * 0x1p-23F);
  EXPECT_EQ(pattern_value(1, 0, 1), -1288299 * 0x1p-23F);
  EXPECT_EQ(pattern_value(1, 1, 0), -2656986 * 0x1p-23F);
  EXPECT_EQ(pattern_value(42, 2147483646, 2147483646), -6365088 * 0x1p-23F);
}

TEST(PatternValue, StaysInItsRangeOnItsGridAndOffZero) {
  double sum = 0;
  for (std::int64_t col = 0; col < 100000; ++col) {
    const float value = pattern_value(7, 3, col);
    sum += static_cast<double>(value);
    ASSERT_GE(value, -1.0F);
    ASSERT_LT(value, 1.0F);
    ASSERT_NE(value, 0.0F);
    ASSERT_EQ(std::ldexp(value, 23), std::trunc(std::ldexp(value, 23)));
  }

  // The mean of 100000 uniform numbers has a deviation of 0.0018.
  EXPECT_NEAR(sum / 100000, 0, 0.01);
}

TEST(PatternValue, FillsMatricesEntryByEntry) {
  CsrMatrix matrix = test::five_by_five();

  fill_pattern_values(matrix, 9);

  EXPECT_EQ(matrix.values[1], pattern_value(9, 0, 3));
  EXPECT_EQ(matrix.values[2], pattern_value(9, 2, 2));
  EXPECT_EQ(matrix.values[8], pattern_value(9, 4, 0));
}

}  // namespace
}  // namespace spjit

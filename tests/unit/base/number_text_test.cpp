#include "base/number_text.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

namespace {

using spjit::read_number;

TEST(NumberText, IsAllOfTheText) {
  EXPECT_EQ(read_number<int>("12"), 12);
  EXPECT_EQ(read_number<std::int64_t>("-7"), -7);
  EXPECT_EQ(read_number<double>("1e-3"), 1e-3);
  for (const char* text : {"", "12 ", " 12", "+12", "12x", "0x1", "1.5"}) {
    EXPECT_EQ(read_number<int>(text), std::nullopt) << text;
  }
}

TEST(NumberText, IsWithinItsType) {
  EXPECT_EQ(read_number<std::int32_t>("2147483647"), 2147483647);
  EXPECT_EQ(read_number<std::int32_t>("2147483648"), std::nullopt);
  EXPECT_EQ(read_number<double>("1e999"), std::nullopt);
}

}  // namespace

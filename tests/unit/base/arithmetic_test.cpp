#include "base/arithmetic.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "spjit/error.hpp"

namespace {

constexpr std::int64_t k_most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t k_least = std::numeric_limits<std::int64_t>::min();

/// What the InvalidArgument that `work` throws says; empty if it throws none.
template <class Work>
std::string refusal(const Work& work) {
  try {
    static_cast<void>(work());
  } catch (const spjit::InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(Checked, CastsKeepWhatFits) {
  EXPECT_EQ(spjit::checked_cast<std::int32_t>(2147483647, "x"), 2147483647);
  EXPECT_EQ(spjit::checked_cast<std::int32_t>(-2147483648LL, "x"), -2147483647 - 1);
  EXPECT_EQ(spjit::checked_cast<std::uint8_t>(255, "x"), 255);
}

TEST(Checked, CastsRefuseWhatDoesNot) {
  EXPECT_EQ(refusal([] { return spjit::checked_cast<std::int32_t>(2147483648LL, "a row"); }),
            "a row: 2147483648 does not fit 31 bits; use a smaller matrix, n or leading dimension");
  EXPECT_NE(refusal([] { return spjit::checked_cast<std::int32_t>(-2147483649LL, "x"); }), "");
  EXPECT_NE(refusal([] { return spjit::checked_cast<std::uint32_t>(-1, "x"); }), "");
}

TEST(Checked, ProductsAreExactOrRefused) {
  EXPECT_EQ(spjit::checked_multiply(std::int64_t{1} << 31, (std::int64_t{1} << 32) - 1, "x"),
            9223372034707292160);
  EXPECT_EQ(refusal([] { return spjit::checked_multiply(1LL << 31, 1LL << 32, "floats of B"); }),
            "floats of B: 2147483648 * 4294967296 does not fit 63 bits; use a smaller matrix, n or "
            "leading dimension");
  EXPECT_NE(refusal([] { return spjit::checked_multiply(k_least, -1, "x"); }), "");
}

TEST(Checked, SumsAreExactOrRefused) {
  EXPECT_EQ(spjit::checked_add(k_most - 1, 1, "x"), k_most);
  EXPECT_EQ(refusal([] { return spjit::checked_add(k_most, 1, "bytes"); }),
            "bytes: 9223372036854775807 + 1 does not fit 63 bits; use a smaller matrix, n or "
            "leading dimension");
  EXPECT_NE(refusal([] { return spjit::checked_add(k_least, -1, "x"); }), "");
}

}  // namespace

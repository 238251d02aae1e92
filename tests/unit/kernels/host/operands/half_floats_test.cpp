// bf16 and f16 by their definition: all there are, what lies between them, and every count.

#include "kernels/host/operands/half_floats.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/compile_testing.hpp"
#include "tests/support/guarded_memory.hpp"
#include "tests/support/narrow_elements.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

constexpr std::uint32_t k_bit_patterns = 1U << 16U;

class HalfFloats : public testing::TestWithParam<DataType> {};

TEST_P(HalfFloats, AreWidenedExactly) {
  std::vector<std::uint16_t> all(k_bit_patterns);
  for (std::uint32_t bits = 0; bits < k_bit_patterns; ++bits)
    all[bits] = static_cast<std::uint16_t>(bits);
  for (const HostIsa isa : isas_here()) {
    std::vector<float> floats(k_bit_patterns);

    widen_of(GetParam(), isa)(all.data(), k_bit_patterns, floats.data());

    for (std::uint32_t bits = 0; bits < k_bit_patterns; ++bits) {
      const double expected = narrow_value(GetParam(), bits);
      const auto made = static_cast<double>(floats[bits]);
      ASSERT_TRUE(made == expected || (std::isnan(made) && std::isnan(expected)))
          << to_string(isa) << " " << bits;
      ASSERT_EQ(std::signbit(made), (bits & 0x8000U) != 0) << to_string(isa) << " " << bits;
    }
  }
}

/// Each number of the type, the middles between neighbours, and floats on both sides of these.
std::vector<float> numbers_and_middles(DataType type) {
  std::vector<float> floats;
  for (std::uint32_t bits = 0; bits < k_bit_patterns; ++bits) {
    const double number = narrow_value(type, bits);
    if (std::isnan(number)) continue;
    const double next = narrow_value(type, (bits + 1) & (k_bit_patterns - 1));
    floats.push_back(static_cast<float>(number));
    if (std::isinf(number) || std::isinf(next) || std::isnan(next)) continue;
    const auto middle = static_cast<float>((number + next) / 2);
    const float away = std::copysign(std::numeric_limits<float>::infinity(), middle);
    floats.push_back(middle);
    floats.push_back(std::nextafter(middle, 0.0F));
    floats.push_back(std::nextafter(middle, away));
  }
  const DataTypeInfo& info = info_of(type);
  const auto half_unit = static_cast<float>(info.largest * info.unit_roundoff / 2);
  for (const float edge : {static_cast<float>(info.largest) + half_unit, 65'520.0F, 65'519.99F,
                           std::numeric_limits<float>::max(), std::numeric_limits<float>::min(),
                           std::numeric_limits<float>::denorm_min()}) {
    floats.insert(floats.end(), {edge, -edge});
  }
  return floats;
}

TEST_P(HalfFloats, AreTheNearestAndOfTwoTheEvenOnes) {
  const std::vector<float> floats = numbers_and_middles(GetParam());
  for (const HostIsa isa : isas_here()) {
    std::vector<std::uint16_t> rounded(floats.size());

    round_of(GetParam(), isa)(floats.data(), std::ssize(floats), rounded.data());

    for (std::size_t i = 0; i < floats.size(); ++i) {
      ASSERT_EQ(rounded[i], nearest_narrow(GetParam(), static_cast<double>(floats[i])))
          << to_string(isa) << " " << floats[i];
    }
  }
}

TEST_P(HalfFloats, OfNanAreQuietAndKeepTheSignAlone) {
  const std::uint32_t quiet = GetParam() == DataType::bf16 ? 0x7FC0 : 0x7E00;
  for (const HostIsa isa : isas_here()) {
    for (const std::uint32_t bits : {0x7FC00000U, 0x7F800001U, 0x7FFFFFFFU, 0x7FC12345U}) {
      const std::vector<float> floats = {std::bit_cast<float>(bits), 1.0F,
                                         std::bit_cast<float>(bits | 0x80000000U)};
      for (std::int64_t first = 0; first < 20; ++first) {
        std::vector<float> among(20, 1.0F);
        among[index(first)] = floats[first % 2 == 0 ? 0 : 2];
        std::vector<std::uint16_t> rounded(20);

        round_of(GetParam(), isa)(among.data(), 20, rounded.data());

        EXPECT_EQ(rounded[index(first)], quiet | (first % 2 == 0 ? 0U : 0x8000U))
            << to_string(isa) << " " << bits;
        EXPECT_EQ(std::ranges::count(rounded, rounded[index((first + 1) % 20)]), 19);
      }
    }
  }
}

TEST_P(HalfFloats, OfEveryCountTouchNothingElse) {
  for (const HostIsa isa : isas_here()) {
    for (std::int64_t count = 0; count < 50; ++count) {
      for (const GuardPlacement placement : k_placements) {
        const GuardedFloats floats(count, placement);
        const GuardedPages halves(index(2 * count), placement, 2);
        auto* const first = reinterpret_cast<std::uint16_t*>(halves.bytes().data());
        for (std::int64_t i = 0; i < count; ++i) floats.span()[index(i)] = static_cast<float>(i);

        round_of(GetParam(), isa)(floats.data(), count, first);
        std::ranges::fill(floats.span(), -1.0F);
        widen_of(GetParam(), isa)(first, count, floats.data());

        ASSERT_TRUE(floats.intact() && halves.intact()) << to_string(isa) << " " << count;
        for (std::int64_t i = 0; i < count; ++i) {
          ASSERT_EQ(floats.span()[index(i)], static_cast<float>(i)) << to_string(isa) << count;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OfTypes, HalfFloats, testing::Values(DataType::bf16, DataType::f16),
                         [](const auto& info) { return std::string(to_string(info.param)); });

}  // namespace

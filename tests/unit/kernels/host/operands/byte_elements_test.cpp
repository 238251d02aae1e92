// Floats as bytes of C: against a scalar evaluation of QuantizeLinear's definition.

#include "kernels/host/operands/byte_elements.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/draw.hpp"
#include "tests/support/guarded_memory.hpp"
#include "tests/support/quantized_elements.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

constexpr float k_infinity = std::numeric_limits<float>::infinity();

double as_byte(std::uint8_t bits, DataType type) {
  return type == DataType::i8 ? std::bit_cast<std::int8_t>(bits) : bits;
}

class ByteElements : public testing::TestWithParam<HostIsa> {
 protected:
  void SetUp() override {
    if (!Target(GetParam()).runs_here()) GTEST_SKIP() << "no " << to_string(GetParam()) << " here";
  }

  static void expect_bytes(const std::vector<float>& floats, const UnitOfBytes& unit,
                           DataType type) {
    std::vector<std::uint8_t> made(floats.size() + 1, 0xA5);

    quantize_floats(floats, {unit.scale, unit.zero}, type, made.data(), GetParam());

    for (std::size_t i = 0; i < floats.size(); ++i) {
      ASSERT_EQ(as_byte(made[i], type), byte_of_c(floats[i], unit, type))
          << floats[i] << " / " << unit.scale << " + " << unit.zero;
    }
    ASSERT_EQ(made.back(), 0xA5) << "of " << floats.size();
  }
};

TEST_P(ByteElements, AreThoseOfTheDefinitionForFloatsOfAnyBits) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Draw draw(seed);
    const DataType type = draw.one_of<DataType>({DataType::i8, DataType::u8});
    const int least = type == DataType::i8 ? -128 : 0;
    const auto bits = static_cast<std::uint32_t>(draw.between(1, 0x7F7FFFFF));
    const UnitOfBytes unit{std::bit_cast<float>(bits),
                           static_cast<int>(draw.between(least, least + 255))};
    std::vector<float> floats(index(draw.between(0, 70)));
    for (float& value : floats) {
      value = std::bit_cast<float>(static_cast<std::uint32_t>(draw.between(0, 0xFFFFFFFF)));
      // Near what a byte may stand for.
      if (draw.chance(70)) value = unit.scale * static_cast<float>(draw.between(-3000, 3000)) / 10;
    }

    expect_bytes(floats, unit, type);
    if (HasFatalFailure()) return;
  }
}

TEST_P(ByteElements, AreTheEvenOnesInTheMiddleOfTwoAndSaturate) {
  for (const DataType type : {DataType::i8, DataType::u8}) {
    const int least = type == DataType::i8 ? -128 : 0;
    for (const float scale : {0x1p-149F, 0x1p-126F, 0.0078125F, 1.0F, 3.0F, 0x1p119F}) {
      for (const int zero : {least, least + 1, 0, least + 128, least + 255}) {
        std::vector<float> floats;
        for (int twice = -1030; twice <= 1030; ++twice) {
          const float tie = static_cast<float>(twice) * 0.5F * scale;
          for (const float value :
               {tie, std::nextafter(tie, k_infinity), std::nextafter(tie, -k_infinity)}) {
            floats.push_back(value);
          }
        }
        expect_bytes(floats, {scale, zero}, type);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ByteElements, AreTheLeastOfNanTheEndsOfInfinityAndTheZeroPointOfBothZeros) {
  constexpr float k_nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> floats = {k_nan, -k_nan, k_infinity, -k_infinity, 0.0F, -0.0F};
  std::vector<std::uint8_t> made(floats.size());

  quantize_floats(floats, {0.5F, 100}, DataType::i8, made.data(), GetParam());
  EXPECT_EQ(made, (std::vector<std::uint8_t>{0x80, 0x80, 0x7F, 0x80, 100, 100}));
  quantize_floats(floats, {0.5F, 7}, DataType::u8, made.data(), GetParam());
  EXPECT_EQ(made, (std::vector<std::uint8_t>{0, 0, 255, 0, 7, 7}));
}

TEST_P(ByteElements, ReadNothingBehindTheirFloats) {
  for (std::size_t count = 0; count < 40; ++count) {
    const GuardedPages floats(count * sizeof(float), GuardPlacement::at_end, sizeof(float));
    const GuardedPages bytes(count, GuardPlacement::at_end, 1);

    quantize_floats({reinterpret_cast<const float*>(floats.bytes().data()), count}, {1, 0},
                    DataType::u8, reinterpret_cast<std::uint8_t*>(bytes.bytes().data()),
                    GetParam());

    EXPECT_TRUE(bytes.intact());
  }
}

TEST(WidenedBytes, AreDifferencesTimesTheScale) {
  std::vector<std::uint8_t> bytes(256);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i);
  std::vector<float> made(bytes.size());
  for (const DataType type : {DataType::i8, DataType::u8}) {
    const UnitOfBytes unit{0.1F, -7 + (type == DataType::u8 ? 138 : 0)};

    widen_bytes(bytes.data(), std::ssize(bytes), {unit.scale, unit.zero}, type, made.data());

    for (std::size_t i = 0; i < bytes.size(); ++i) {
      ASSERT_EQ(made[i], number_of_c(as_byte(bytes[i], type), unit));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, ByteElements,
                         testing::Values(HostIsa::avx512, HostIsa::avx2, HostIsa::generic),
                         [](const testing::TestParamInfo<HostIsa>& info) {
                           return std::string(to_string(info.param));
                         });

}  // namespace

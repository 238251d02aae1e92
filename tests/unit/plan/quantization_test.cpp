// Scales, zero points and bytes of numbers, by hand.

#include "plan/quantization.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <limits>

namespace spjit {
namespace {

constexpr float k_infinity = std::numeric_limits<float>::infinity();
constexpr float k_smallest = std::numeric_limits<float>::denorm_min();
constexpr Quantization k_tensor = Quantization::tensor;
constexpr Quantization k_token = Quantization::token;

ByteScale scale_of_numbers(std::initializer_list<float> numbers, Quantization how) {
  FloatRange range;
  for (const float number : numbers) range.add(number);
  return scale_of(range, how);
}

TEST(Quantization, OfATensorHasARangeWithZero) {
  EXPECT_EQ(scale_of_numbers({1, 510}, k_tensor), (ByteScale{2, 0}));
  EXPECT_EQ(scale_of_numbers({-510, -1}, k_tensor), (ByteScale{2, 255}));
  EXPECT_EQ(scale_of_numbers({-100, 155}, k_tensor), (ByteScale{1, 100}));
}

TEST(Quantization, RoundsHalfToEven) {
  EXPECT_EQ(scale_of_numbers({-1.5, 253.5}, k_tensor), (ByteScale{1, 2}));
  EXPECT_EQ(scale_of_numbers({-2.5, 252.5}, k_tensor), (ByteScale{1, 2}));
  const ByteScale scale{1, 2};
  EXPECT_EQ(quantized(0.5, scale, k_tensor), 2);
  EXPECT_EQ(quantized(1.5, scale, k_tensor), 4);
  EXPECT_EQ(quantized(-1.5, scale, k_tensor), 0);
  EXPECT_EQ(quantized(0.5, {}, k_token), 0);
  EXPECT_EQ(quantized(-1.5, {}, k_token), -2);
}

TEST(Quantization, StaysWithinItsBytes) {
  const ByteScale scale{1, 100};
  EXPECT_EQ(quantized(155.4F, scale, k_tensor), 255);
  EXPECT_EQ(quantized(1e30F, scale, k_tensor), 255);
  EXPECT_EQ(quantized(-1e30F, scale, k_tensor), 0);
  EXPECT_EQ(quantized(1e30F, {}, k_token), 127);
  EXPECT_EQ(quantized(-1e30F, {}, k_token), -127);
}

TEST(Quantization, OfZerosHasTheScaleOne) {
  for (const Quantization how : {k_tensor, k_token}) {
    EXPECT_EQ(scale_of_numbers({}, how), (ByteScale{1, 0}));
    EXPECT_EQ(scale_of_numbers({0, -0.0F}, how), (ByteScale{1, 0}));
  }
}

TEST(Quantization, OfATokenIsSymmetric) {
  EXPECT_EQ(scale_of_numbers({-254, 3}, k_token), (ByteScale{2, 0}));
  EXPECT_EQ(scale_of_numbers({-3, 254}, k_token), (ByteScale{2, 0}));
  EXPECT_EQ(scale_of_numbers({k_smallest, -3 * k_smallest}, k_token), (ByteScale{1, 0}));
}

// What ONNX Runtime 1.32 gives.
TEST(Quantization, OfNumbersBeyondItsScaleIsOnnxRuntimes) {
  const ByteScale none{0, 255};
  EXPECT_EQ(scale_of_numbers({k_smallest, 3 * k_smallest}, k_tensor), none);
  EXPECT_EQ(scale_of_numbers({-k_smallest, 3 * k_smallest}, k_tensor), none);
  EXPECT_EQ(quantized(k_smallest, none, k_tensor), 255);
  EXPECT_EQ(quantized(0, none, k_tensor), 0);
  EXPECT_EQ(quantized(-k_smallest, none, k_tensor), 0);
  const ByteScale all = scale_of_numbers({-3e38F, 3e38F}, k_tensor);
  EXPECT_EQ(all, (ByteScale{k_infinity, 0}));
  EXPECT_EQ(quantized(3e38F, all, k_tensor), 0);
}

TEST(Quantization, OfWhatIsNotFiniteHasNoScale) {
  for (const Quantization how : {k_tensor, k_token}) {
    for (const float number : {k_infinity, -k_infinity, std::nanf(""), -std::nanf("")}) {
      const ByteScale scale = scale_of_numbers({1, number, -2}, how);
      EXPECT_TRUE(std::isnan(scale.scale));
      EXPECT_EQ(scale.zero_point, 0);
    }
  }
}

}  // namespace
}  // namespace spjit

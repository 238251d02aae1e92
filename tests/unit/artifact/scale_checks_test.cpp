// Scales and zero points of a run.

#include "artifact/scale_checks.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "artifact/argument_checks.hpp"
#include "spjit/error.hpp"

namespace {

using namespace spjit;

std::string said_of_c(DataType type, const float* scale, std::int32_t zero_point) {
  KernelInfo info;
  info.numerics.c = type;
  try {
    check_scale_of_c(info, {.c_scale = scale, .c_zero_point = zero_point});
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(ScaleChecks, TakeAFiniteScaleAboveZeroAndAZeroPointOfTheType) {
  using Floats = std::numeric_limits<float>;
  for (const float scale : {Floats::denorm_min(), 1.0F, Floats::max()}) {
    EXPECT_EQ(said_of_c(DataType::u8, &scale, 255), "");
    EXPECT_EQ(said_of_c(DataType::i8, &scale, -128), "");
  }
  EXPECT_EQ(said_of_c(DataType::i8, nullptr, 0), "");
  EXPECT_EQ(said_of_c(DataType::u8, nullptr, 7), "");
}

TEST(ScaleChecks, RefuseAScaleThatIsNone) {
  using Floats = std::numeric_limits<float>;
  const auto said_of_scale = [](float scale) { return said_of_c(DataType::u8, &scale, 0); };

  EXPECT_EQ(said_of_scale(0), "c_scale is 0; expected a finite number above 0");
  EXPECT_EQ(said_of_scale(-0.0F), "c_scale is -0; expected a finite number above 0");
  EXPECT_EQ(said_of_scale(-1), "c_scale is -1; expected a finite number above 0");
  EXPECT_EQ(said_of_scale(Floats::quiet_NaN()), "c_scale is nan; expected a finite number above 0");
  EXPECT_EQ(said_of_scale(Floats::infinity()), "c_scale is inf; expected a finite number above 0");
}

TEST(ScaleChecks, RefuseAZeroPointThatTheTypeDoesNotHave) {
  EXPECT_EQ(said_of_c(DataType::u8, nullptr, -1),
            "c_zero_point is -1; expected 0 to 255, what u8 has");
  EXPECT_EQ(said_of_c(DataType::i8, nullptr, 128),
            "c_zero_point is 128; expected -128 to 127, what i8 has");
}

TEST(ScaleChecks, OfAnotherCThereAreNone) {
  const float scale = 1;
  for (const DataType type : {DataType::f32, DataType::bf16, DataType::f16, DataType::i32}) {
    const std::string expected = "c_scale or c_zero_point is given; C of this kernel is " +
                                 std::string(to_string(type)) +
                                 ", and only one of i8 or u8 has them";
    EXPECT_EQ(said_of_c(type, &scale, 0), expected);
    EXPECT_EQ(said_of_c(type, nullptr, 1), expected);
    EXPECT_EQ(said_of_c(type, nullptr, 0), "");
  }
}

TEST(ScaleChecks, ArePartOfThoseOfARun) {
  KernelInfo info;
  info.rows = info.cols = info.n = info.ldb = info.ldc = 1;
  float b = 0;
  float c = 0;
  const float scale = 1;

  EXPECT_THROW(static_cast<void>(checked_arguments(info, {.b = &b, .c = &c, .c_scale = &scale})),
               InvalidArgument);
  EXPECT_THROW(static_cast<void>(checked_arguments(info, {.b = &b, .c = &c, .c_zero_point = 1})),
               InvalidArgument);
  EXPECT_NO_THROW(static_cast<void>(checked_arguments(info, {.b = &b, .c = &c})));
}

TEST(ScaleChecks, TheScaleOfCIsNotWithinC) {
  KernelInfo info;
  info.rows = info.cols = info.n = info.ldb = info.ldc = 1;
  info.numerics.c = DataType::u8;
  float b = 0;
  float memory = 1;
  const Operand c(&memory, DataType::u8);

  EXPECT_THROW(static_cast<void>(checked_arguments(info, {.b = &b, .c = c, .c_scale = &memory})),
               InvalidArgument);
}

}  // namespace

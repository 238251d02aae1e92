#include "artifact/aot_header.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace {

using namespace spjit;
using testing::HasSubstr;
using testing::Not;

KernelInfo info_of_product() {
  KernelInfo info;
  info.rows = 40;
  info.cols = 30;
  info.n = info.ldb = info.ldc = 9;
  return info;
}

TEST(AotHeader, HasAParameterForEachOperandThatARunNeeds) {
  KernelInfo info = info_of_product();
  info.runtime_n = true;
  info.epilogue = {.scale = true, .bias = true, .residual = true};
  info.runtime_values = true;

  const std::string product = aot_header_of(info_of_product(), {}, "fc");
  const std::string layer = aot_header_of(info, {}, "fc");

  EXPECT_THAT(product, HasSubstr("fc(const spjit::Kernel& kernel, const float* b, float* c) {"));
  EXPECT_THAT(product, HasSubstr("kernel.run({.b = b, .c = c});"));
  EXPECT_THAT(product, Not(HasSubstr("bias")));
  EXPECT_THAT(layer, HasSubstr("float* c, std::int64_t n, const float* scale, const float* bias, "
                               "const float* residual, const spjit::PreparedValues& values) {"));
  EXPECT_THAT(layer, HasSubstr("kernel.run({.b = b, .c = c, .n = n, .scale = scale, .bias = bias, "
                               ".residual = residual, .values = &values});"));
}

TEST(AotHeader, OfOtherTypesThanFloatHasPointersToVoid) {
  KernelInfo info;
  info.epilogue.residual = true;
  info.numerics.b = DataType::bf16;
  info.numerics.c = DataType::f16;

  const std::string header = aot_header_of(info, {}, "layer");

  EXPECT_THAT(header, HasSubstr("const void* b, void* c, const void* residual) {"));
  EXPECT_THAT(header, HasSubstr(".b = {b, spjit::DataType::bf16}, .c = {c, spjit::DataType::f16}"));
  EXPECT_THAT(header, HasSubstr(".residual = {residual, spjit::DataType::f16}"));
  EXPECT_THAT(header, HasSubstr("f32,bf16,f16 ordered"));
}

TEST(AotHeader, OfGivenBytesHasTheirScaleAndZeroPoint) {
  KernelInfo info;
  info.numerics.b = DataType::u8;
  info.numerics.quantization = Quantization::given;
  info.runtime_values = true;

  const std::string header = aot_header_of(info, {}, "layer");

  EXPECT_THAT(header,
              HasSubstr("float* c, const float* b_scale, std::int32_t b_zero_point, const"));
  EXPECT_THAT(header, HasSubstr(".b_scale = b_scale, .b_zero_point = b_zero_point, .values = "));
  EXPECT_THAT(header, HasSubstr("/// b stands for b_scale[0] * (b - b_zero_point)\n"));
}

TEST(AotHeader, OfACOfBytesHasItsScaleAndZeroPoint) {
  KernelInfo info;
  info.numerics.c = DataType::i8;

  const std::string header = aot_header_of(info, {}, "layer");

  EXPECT_THAT(header, HasSubstr("void* c, const float* c_scale, std::int32_t c_zero_point"));
  EXPECT_THAT(header, HasSubstr(".c_scale = c_scale, .c_zero_point = c_zero_point"));
  EXPECT_THAT(header, HasSubstr("/// c stands for c_scale[0] * (c - c_zero_point)\n"));
}

TEST(AotHeader, SaysHowOperandsLie) {
  KernelInfo info = info_of_product();
  info.b_layout = Layout::tokens_major;
  info.ldb = 32;
  info.c_layout = Layout::panel_major;
  info.panel_columns = 16;

  const std::string header = aot_header_of(info, {}, "fc");

  EXPECT_THAT(header, HasSubstr("/// b: tokens [9 x 30], tokens 32 elements apart\n"));
  EXPECT_THAT(header, HasSubstr("/// c: panels of 16 columns, 40 features x 9\n"));
}

TEST(AotHeader, OfAConvolutionHasTheImagesSizes) {
  KernelInfo info = info_of_product();
  info.cols = 45;
  info.convolution =
      Convolution{.channels = 5, .height = 5, .width = 5, .kernel_height = 3, .kernel_width = 3};
  info.ldb = 25;
  const std::string fixed = aot_header_of(info, {}, "conv");
  info.runtime_n = true;
  info.c_layout = Layout::tokens_major;
  info.ldc = 40;
  const std::string any = aot_header_of(info, {}, "conv");

  EXPECT_THAT(fixed, HasSubstr("; B: patches of 5x5x5, kernel 3x3; "));
  EXPECT_THAT(fixed, HasSubstr("/// b: an image, features [5 x 25]\n/// c: features [40 x 9]\n"));
  EXPECT_THAT(fixed, HasSubstr("conv(const spjit::Kernel& kernel, const float* b, float* c) {"));
  EXPECT_THAT(any, HasSubstr("/// b: an image, features [5 x height * width]\n"
                             "/// c: tokens [pixels of the output x 40]\n"));
  EXPECT_THAT(any, HasSubstr("float* c, std::int64_t height, std::int64_t width) {"));
  EXPECT_THAT(any, HasSubstr("kernel.run({.b = b, .c = c, .height = height, .width = width});"));
}

}  // namespace

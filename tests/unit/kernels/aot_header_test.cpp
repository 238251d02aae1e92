#include "kernels/aot_header.hpp"

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

TEST(AotHeader, SaysHowOperandsLie) {
  KernelInfo info = info_of_product();
  info.b_layout = Layout::tokens_major;
  info.ldb = 32;
  info.c_layout = Layout::panel_major;
  info.panel_columns = 16;

  const std::string header = aot_header_of(info, {}, "fc");

  EXPECT_THAT(header, HasSubstr("/// b: tokens [9 x 30], tokens 32 floats apart\n"));
  EXPECT_THAT(header, HasSubstr("/// c: panels of 16 columns, 40 features x 9\n"));
}

}  // namespace

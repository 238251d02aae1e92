// Types of A, B and C and the promise on sums in the C interface.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "spjit.h"
#include "tests/support/spmm_testing.hpp"
#include "tests/unit/bindings/c_testing.hpp"

namespace {

using namespace spjit::testing_support;
using testing::HasSubstr;

/// Whole numbers from 1 to 7.
const spjit::CsrMatrix k_whole = small_matrix();

CCompiler typed_compiler() {
  auto options = sized<spjit_compiler_options>();
  options.no_cache = 1;
  spjit_compiler* made = nullptr;
  EXPECT_EQ(spjit_compiler_create(&options, &made), SPJIT_OK) << spjit_last_error();
  return CCompiler(made);
}

spjit_problem integers() {
  auto problem = sized<spjit_problem>();
  problem.n = 2;
  problem.a_type = SPJIT_I8;
  problem.b_type = SPJIT_U8;
  problem.c_type = SPJIT_I32;
  problem.accumulate = SPJIT_INTEGER;
  return problem;
}

int compile_typed(const spjit_problem& problem, CKernel& kernel) {
  const CMatrix matrix = matrix_of(k_whole);
  spjit_kernel* made = nullptr;
  const int status = spjit_compile(typed_compiler().get(), matrix.get(), &problem, nullptr, &made);
  kernel.reset(made);
  return status;
}

TEST(CTypes, RunsOnElementsOfTheKernelsTypes) {
  CKernel kernel;
  ASSERT_EQ(compile_typed(integers(), kernel), SPJIT_OK) << spjit_last_error();
  const std::vector<std::uint8_t> b = {255, 1, 2, 3, 4, 5, 250, 7, 8, 9};
  std::vector<std::int32_t> c(10, -1);
  auto run = sized<spjit_arguments>();
  run.b = b.data();
  run.c = c.data();

  ASSERT_EQ(spjit_kernel_run(kernel.get(), &run), SPJIT_OK) << spjit_last_error();

  // Row 0 is 1 * B[0] + 2 * B[3].
  EXPECT_EQ(c[0], 755);
  EXPECT_EQ(c[1], 15);
  EXPECT_EQ(c[2], 0);
  const char* info = nullptr;
  ASSERT_EQ(spjit_kernel_info(kernel.get(), &info), SPJIT_OK);
  EXPECT_THAT(info, HasSubstr(R"("accumulate":"integer")"));
}

TEST(CTypes, QuantizesBytesThatAreGiven) {
  spjit_problem problem = integers();
  problem.c_type = SPJIT_F32;
  problem.quantization = SPJIT_QUANTIZATION_GIVEN;
  CKernel kernel;
  ASSERT_EQ(compile_typed(problem, kernel), SPJIT_OK) << spjit_last_error();
  const std::vector<std::uint8_t> b = {255, 1, 2, 3, 4, 5, 250, 7, 8, 9};
  std::vector<float> c(10, -1);
  const float scale = 0.5F;
  auto run = sized<spjit_arguments>();
  run.b = b.data();
  run.c = c.data();

  EXPECT_EQ(spjit_kernel_run(kernel.get(), &run), SPJIT_INVALID_ARGUMENT);
  EXPECT_THAT(spjit_last_error(), HasSubstr("b_scale is null; expected the scale of B, one float"));
  run.b_scale = &scale;
  run.b_zero_point = 256;
  EXPECT_EQ(spjit_kernel_run(kernel.get(), &run), SPJIT_INVALID_ARGUMENT);
  EXPECT_THAT(spjit_last_error(), HasSubstr("b_zero_point is 256; expected 0 to 255, what u8 has"));
  run.b_zero_point = 2;
  ASSERT_EQ(spjit_kernel_run(kernel.get(), &run), SPJIT_OK) << spjit_last_error();

  // Row 0 is 1 * (B[0] - 2) + 2 * (B[3] - 2), times the scale.
  EXPECT_EQ(c[0], 374.5F);
  EXPECT_EQ(c[1], 4.5F);
  EXPECT_EQ(c[2], 0);
}

TEST(CTypes, GiveBytesOfTheirScaleAndZeroPoint) {
  spjit_problem problem = integers();
  problem.c_type = SPJIT_I8;
  CKernel kernel;
  ASSERT_EQ(compile_typed(problem, kernel), SPJIT_OK) << spjit_last_error();
  const std::vector<std::uint8_t> b = {255, 1, 2, 3, 4, 5, 250, 7, 8, 9};
  std::vector<std::int8_t> c(10, -1);
  const float scale = 2;
  auto run = sized<spjit_arguments>();
  run.b = b.data();
  run.c = c.data();
  run.c_scale = &scale;
  run.c_zero_point = 128;

  EXPECT_EQ(spjit_kernel_run(kernel.get(), &run), SPJIT_INVALID_ARGUMENT);
  EXPECT_THAT(spjit_last_error(),
              HasSubstr("c_zero_point is 128; expected -128 to 127, what i8 has"));
  run.c_zero_point = -3;
  ASSERT_EQ(spjit_kernel_run(kernel.get(), &run), SPJIT_OK) << spjit_last_error();

  // Sums are 755 and 15, of whose halves the second is between 7 and 8.
  EXPECT_EQ(c[0], 127);
  EXPECT_EQ(c[1], 5);
  EXPECT_EQ(c[2], -3);
}

TEST(CTypes, AddABiasFirst) {
  spjit_problem problem = integers();
  problem.c_type = SPJIT_F32;
  problem.bias_first = 1;
  CKernel kernel;
  EXPECT_EQ(compile_typed(problem, kernel), SPJIT_INVALID_ARGUMENT);
  EXPECT_THAT(spjit_last_error(), HasSubstr("bias_first is set without scale and bias"));
  problem.has_scale = problem.has_bias = 1;
  ASSERT_EQ(compile_typed(problem, kernel), SPJIT_OK) << spjit_last_error();
  const std::vector<std::uint8_t> b = {255, 1, 2, 3, 4, 5, 250, 7, 8, 9};
  std::vector<float> c(10, -1);
  const std::vector<float> scale(5, 2);
  const std::vector<float> bias(5, 10);
  auto run = sized<spjit_arguments>();
  run.b = b.data();
  run.c = c.data();
  run.scale = scale.data();
  run.bias = bias.data();

  ASSERT_EQ(spjit_kernel_run(kernel.get(), &run), SPJIT_OK) << spjit_last_error();

  EXPECT_EQ(c[0], 1530);
  const char* info = nullptr;
  ASSERT_EQ(spjit_kernel_info(kernel.get(), &info), SPJIT_OK);
  EXPECT_THAT(info, HasSubstr(R"("bias_first":true)"));
}

TEST(CTypes, HaveNoScaleOfOtherKernels) {
  CKernel kernel;
  ASSERT_EQ(compile_typed(integers(), kernel), SPJIT_OK) << spjit_last_error();
  std::vector<std::uint8_t> b(10);
  std::vector<std::int32_t> c(10);
  const float scale = 1;
  auto run = sized<spjit_arguments>();
  run.b = b.data();
  run.c = c.data();
  run.b_scale = &scale;

  EXPECT_EQ(spjit_kernel_run(kernel.get(), &run), SPJIT_INVALID_ARGUMENT);
  EXPECT_THAT(spjit_last_error(), HasSubstr("this kernel was compiled without"));
  run.b_scale = nullptr;
  run.c_scale = &scale;
  EXPECT_EQ(spjit_kernel_run(kernel.get(), &run), SPJIT_INVALID_ARGUMENT);
  EXPECT_THAT(spjit_last_error(),
              HasSubstr("c_scale or c_zero_point is given; C of this kernel is i32"));
}

TEST(CTypes, OfABoundHaveItsEps) {
  spjit_problem problem = integers();
  problem.b_type = SPJIT_BF16;
  problem.accumulate = SPJIT_BOUNDED;
  CKernel kernel;

  EXPECT_EQ(compile_typed(problem, kernel), SPJIT_INVALID_ARGUMENT);
  EXPECT_THAT(spjit_last_error(), HasSubstr("eps of bounded is 0"));
  problem.eps = 1e-3;
  EXPECT_EQ(compile_typed(problem, kernel), SPJIT_OK) << spjit_last_error();
}

TEST(CTypes, ThatAreNoneAreRefused) {
  CKernel kernel;
  spjit_problem type = integers();
  type.b_type = 7;
  spjit_problem promise = integers();
  promise.accumulate = 4;
  spjit_problem quantization = integers();
  quantization.quantization = 4;

  EXPECT_EQ(compile_typed(type, kernel), SPJIT_INVALID_ARGUMENT);
  EXPECT_THAT(spjit_last_error(), HasSubstr("b_type"));
  EXPECT_EQ(compile_typed(quantization, kernel), SPJIT_INVALID_ARGUMENT);
  EXPECT_THAT(spjit_last_error(), HasSubstr("quantization"));
  EXPECT_EQ(compile_typed(promise, kernel), SPJIT_INVALID_ARGUMENT);
  EXPECT_THAT(spjit_last_error(), HasSubstr("accumulate"));
}

TEST(CTypes, HaveScalesOfGroups) {
  auto problem = sized<spjit_problem>();
  problem.n = 1;
  problem.a_type = SPJIT_I4;
  const std::vector<float> scales = {1, 2, 4, 8, 0.5F};
  problem.group_columns = 32;
  problem.group_scales = scales.data();
  problem.group_scale_count = std::ssize(scales);
  CKernel kernel;
  ASSERT_EQ(compile_typed(problem, kernel), SPJIT_OK) << spjit_last_error();
  const std::vector<float> b(5, 1);
  std::vector<float> c(5);
  auto run = sized<spjit_arguments>();
  run.b = b.data();
  run.c = c.data();

  ASSERT_EQ(spjit_kernel_run(kernel.get(), &run), SPJIT_OK) << spjit_last_error();

  EXPECT_EQ(c, (std::vector<float>{3, 0, 12, 120, 3.5F}));
  const char* info = nullptr;
  ASSERT_EQ(spjit_kernel_info(kernel.get(), &info), SPJIT_OK);
  EXPECT_THAT(info, HasSubstr(R"("group_columns":32)"));
}

TEST(CTypes, RefuseScalesOfGroupsThatAreNone) {
  auto problem = sized<spjit_problem>();
  problem.n = 1;
  problem.a_type = SPJIT_I8;
  problem.group_columns = 32;
  problem.group_scale_count = -1;
  CKernel kernel;

  EXPECT_EQ(compile_typed(problem, kernel), SPJIT_INVALID_ARGUMENT);
  EXPECT_THAT(spjit_last_error(), HasSubstr("group_scale_count is -1"));
  problem.group_scale_count = 5;
  EXPECT_EQ(compile_typed(problem, kernel), SPJIT_INVALID_ARGUMENT);
  EXPECT_THAT(spjit_last_error(), HasSubstr("group_scales"));
  const std::vector<float> scales(4, 1.0F);
  problem.group_scales = scales.data();
  problem.group_scale_count = 4;
  EXPECT_EQ(compile_typed(problem, kernel), SPJIT_INVALID_ARGUMENT);
  EXPECT_THAT(spjit_last_error(), HasSubstr("4 scales of groups; expected 5 rows x 1 groups"));
}

// As a program that was compiled before there were types passes it.
TEST(CTypes, AreNoPartOfAnOlderStruct) {
  spjit_problem older = integers();
  older.struct_size = offsetof(spjit_problem, a_type);
  CKernel kernel;

  ASSERT_EQ(compile_typed(older, kernel), SPJIT_OK) << spjit_last_error();
  const char* info = nullptr;
  ASSERT_EQ(spjit_kernel_info(kernel.get(), &info), SPJIT_OK);
  EXPECT_THAT(info, HasSubstr(R"("accumulate":"ordered")"));
}

}  // namespace

// Convolutions of the C interface are those of the C++ one.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "spjit/compiler.hpp"
#include "tests/support/compile_testing.hpp"
#include "tests/support/spmm_testing.hpp"
#include "tests/unit/bindings/c_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

constexpr std::int64_t k_filters = 24;
constexpr std::int64_t k_images = 3;

/// A 3 x 3 convolution of two groups, stride 2 one way, uneven padding, in both interfaces.
class CConvolution : public testing::Test {
 protected:
  static spjit_convolution c_convolution() {
    auto of = sized<spjit_convolution>();
    of.channels = 6;
    of.height = 9;
    of.width = 11;
    of.kernel_height = 3;
    of.kernel_width = 3;
    of.stride_height = 2;
    of.pad_top = 1;
    of.pad_left = 2;
    of.dilation_width = 2;
    of.groups = 2;
    return of;
  }
  static Convolution convolution(std::int64_t height, std::int64_t width) {
    return {.channels = 6,
            .height = height,
            .width = width,
            .kernel_height = 3,
            .kernel_width = 3,
            .stride_height = 2,
            .pad_top = 1,
            .pad_left = 2,
            .dilation_width = 2,
            .groups = 2};
  }
  static std::int64_t pixels_of(const Convolution& of) {
    return of.output_height() * of.output_width();
  }
  static spjit_arguments images(const Convolution& of, const std::vector<float>& x,
                                std::vector<float>& y) {
    auto given = sized<spjit_arguments>();
    given.b = x.data();
    given.c = y.data();
    given.batch = k_images;
    given.b_distance = of.channels * of.height * of.width;
    given.c_distance = k_filters * pixels_of(of);
    return given;
  }
  /// Y of the C++ interface for images of that size.
  std::vector<float> expected(const Convolution& of, Layout layout, const std::vector<float>& x) {
    Problem problem{.operation = Operation::conv2d, .a = a_};
    problem.convolution = of;
    problem.b.layout = problem.c.layout = layout;
    std::vector<float> y(index(k_images * k_filters * pixels_of(of)));
    Compiler(CompileOptions{}, uncached())
        .compile(problem)
        .run({.b = {x.data(), {.distance = of.channels * of.height * of.width}},
              .c = {y.data(), {.distance = k_filters * pixels_of(of)}},
              .batch = k_images});
    return y;
  }

  CsrMatrix a_ = random_matrix(k_filters, 3 * 9, 0.7);
  CMatrix matrix_ = matrix_of(a_);
  CCompiler compiler_ = compiler_of();
};

TEST_F(CConvolution, HasTheBitsOfTheCxxInterface) {
  const Convolution of = convolution(9, 11);
  const spjit_convolution given = c_convolution();
  const std::vector<float> x = dense_values(k_images * 6 * 9 * 11, 1);
  for (const auto& [c_layout, layout] : {std::pair{SPJIT_LAYOUT_FEATURES, Layout::row_major},
                                         std::pair{SPJIT_LAYOUT_TOKENS, Layout::tokens_major}}) {
    auto problem = sized<spjit_problem>();
    problem.b_layout = problem.c_layout = c_layout;
    problem.convolution = &given;
    const CKernel kernel = kernel_of(compiler_.get(), matrix_.get(), problem);
    std::vector<float> y(index(k_images * k_filters * pixels_of(of)));
    spjit_arguments run = images(of, x, y);

    ASSERT_EQ(spjit_kernel_run(kernel.get(), &run), SPJIT_OK) << spjit_last_error();

    EXPECT_TRUE(same_bits(y, expected(of, layout, x)));
    EXPECT_EQ(spjit_kernel_n(kernel.get()), pixels_of(of));
    run.height = 12;
    expect_error(spjit_kernel_run(kernel.get(), &run), SPJIT_INVALID_ARGUMENT,
                 "height is 12; this kernel was compiled for 9");
  }
}

TEST_F(CConvolution, TakesImagesOfAnySize) {
  const spjit_convolution given = c_convolution();
  auto problem = sized<spjit_problem>();
  problem.runtime_n = 1;
  problem.convolution = &given;
  const CKernel kernel = kernel_of(compiler_.get(), matrix_.get(), problem);
  for (const Convolution& of : {convolution(9, 11), convolution(5, 30)}) {
    const std::vector<float> x = dense_values(k_images * 6 * of.height * of.width, 1);
    std::vector<float> y(index(k_images * k_filters * pixels_of(of)));
    spjit_arguments run = images(of, x, y);
    run.height = of.height;
    run.width = of.width;

    ASSERT_EQ(spjit_kernel_run(kernel.get(), &run), SPJIT_OK) << spjit_last_error();

    EXPECT_TRUE(same_bits(y, expected(of, Layout::row_major, x)));
    run.n = 7;
    expect_error(spjit_kernel_run(kernel.get(), &run), SPJIT_INVALID_ARGUMENT, "n is 7");
  }
}

TEST_F(CConvolution, IsInTheJson) {
  const spjit_convolution given = c_convolution();
  spjit_problem problem = sized<spjit_problem>();
  problem.convolution = &given;
  const CKernel kernel = kernel_of(compiler_.get(), matrix_.get(), problem);
  const char* text = nullptr;
  ASSERT_EQ(spjit_kernel_info(kernel.get(), &text), SPJIT_OK);

  const auto info = nlohmann::json::parse(text).at("convolution");

  EXPECT_EQ(info.at("channels"), 6);
  EXPECT_EQ(info.at("kernel"), nlohmann::json({3, 3}));
  EXPECT_EQ(info.at("stride"), nlohmann::json({2, 1}));
  EXPECT_EQ(info.at("pad"), nlohmann::json({1, 2, 0, 0}));
}

TEST_F(CConvolution, OfOneTapIsAProduct) {
  auto given = sized<spjit_convolution>();
  given.channels = 27;
  given.height = 4;
  given.width = 5;
  auto problem = sized<spjit_problem>();
  problem.convolution = &given;
  const CKernel kernel = kernel_of(compiler_.get(), matrix_.get(), problem);
  const char* text = nullptr;
  ASSERT_EQ(spjit_kernel_info(kernel.get(), &text), SPJIT_OK);

  EXPECT_EQ(nlohmann::json::parse(text).at("convolution"), nullptr);
  EXPECT_EQ(spjit_kernel_n(kernel.get()), 20);
}

TEST_F(CConvolution, WrongOnesAreRefused) {
  const auto compile_with = [&](const auto& change) {
    spjit_convolution given = c_convolution();
    auto problem = sized<spjit_problem>();
    problem.convolution = &given;
    change(given, problem);
    spjit_kernel* kernel = nullptr;
    const int status = spjit_compile(compiler_.get(), matrix_.get(), &problem, nullptr, &kernel);
    EXPECT_EQ(kernel, nullptr);
    return status;
  };
  expect_error(compile_with([](auto& given, auto&) { given.struct_size = 0; }),
               SPJIT_INVALID_ARGUMENT, "struct_size of spjit_convolution is 0");
  expect_error(compile_with([](auto& given, auto&) { given.channels = 8; }), SPJIT_INVALID_ARGUMENT,
               "27");
  expect_error(compile_with([](auto& given, auto&) { given.groups = 4; }), SPJIT_INVALID_ARGUMENT,
               "groups of the convolution is 4");
  expect_error(compile_with([](auto& given, auto&) { given.stride_width = -1; }),
               SPJIT_INVALID_ARGUMENT, "stride_width of the convolution is -1");
  expect_error(compile_with([](auto&, auto& problem) { problem.n = 7; }), SPJIT_INVALID_ARGUMENT,
               "n is 7; expected 0");
  expect_error(compile_with([](auto&, auto& problem) { problem.c_layout = SPJIT_LAYOUT_PANELS; }),
               SPJIT_INVALID_ARGUMENT, "panels");
}

TEST_F(CConvolution, StructsOfEarlierHeadersHaveNone) {
  spjit_problem problem = problem_of(8);
  problem.struct_size = offsetof(spjit_problem, convolution);
  problem.convolution = reinterpret_cast<const spjit_convolution*>(8);  // behind the end
  const CKernel kernel = kernel_of(compiler_.get(), matrix_.get(), problem);
  const std::vector<float> b = dense_values(27 * 8, 1);
  std::vector<float> c(index(k_filters * 8));
  auto run = sized<spjit_arguments>();
  run.struct_size = offsetof(spjit_arguments, height);
  run.height = 5;
  run.b = b.data();
  run.c = c.data();

  EXPECT_EQ(spjit_kernel_run(kernel.get(), &run), SPJIT_OK) << spjit_last_error();

  run.struct_size = sizeof(run);
  expect_error(spjit_kernel_run(kernel.get(), &run), SPJIT_INVALID_ARGUMENT, "of no convolution");
}

}  // namespace

// Convolutions: every family of the host that has them, beside the product with all patches.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "spjit/error.hpp"
#include "tests/support/convolution_cases.hpp"
#include "tests/support/convolution_testing.hpp"
#include "tests/support/guarded_buffers.hpp"
#include "tests/support/long_tests.hpp"
#include "tests/support/padded_3x3.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

/// A family and an instruction set that it has.
using FamilyAndIsa = std::tuple<const char*, HostIsa>;

class Convolutions : public testing::TestWithParam<FamilyAndIsa> {
 protected:
  void SetUp() override {
    if (!Target(isa()).runs_here()) GTEST_SKIP() << "no " << to_string(isa()) << " on this CPU";
    if (family() == "unrolled" && !compiles_and_runs(isa())) GTEST_SKIP() << "no LLVM here";
  }
  static std::string family() { return std::get<0>(GetParam()); }
  static HostIsa isa() { return std::get<1>(GetParam()); }

  static ConvolutionKernels kernels(const Problem& problem, int threads = 1) {
    return {problem, family(), isa(), threads};
  }
};

TEST_P(Convolutions, HaveTheBitsOfTheProductWithAllPatches) {
  for (const Convolution& of : geometries()) {
    if (family() == "dense" && of.groups > 1) continue;  // nearly all zeros
    const ConvolutionKernels layer = kernels(problem_of_convolution(of, 16));
    for (const Layout x : {Layout::row_major, Layout::tokens_major}) {
      for (const Layout y : {Layout::row_major, Layout::tokens_major}) {
        EXPECT_EQ(layer.run({.x_layout = x, .y_layout = y}), "");
      }
    }
  }
}

TEST_P(Convolutions, TakeBatchesLeadingDimensionsAndAnEpilogue) {
  Convolution of = padded_3x3(5, 9, 11);
  Problem problem = problem_of_convolution(of, 21);
  problem.epilogue = {
      .scale = true, .bias = true, .residual = true, .activation = Activation::relu};
  for (const int threads : {1, 3}) {
    const ConvolutionKernels layer = kernels(problem, threads);
    for (const std::int64_t batch : in_turn_if_emulated<std::int64_t>(2, {0, 1, 2, 5})) {
      for (const Layout x : {Layout::row_major, Layout::tokens_major}) {
        for (const Layout y : {Layout::row_major, Layout::tokens_major}) {
          EXPECT_EQ(layer.run({.x_layout = x, .y_layout = y, .batch = batch}), "");
          EXPECT_EQ(layer.run({.x_layout = x,
                               .y_layout = y,
                               .ldx = 103,
                               .ldy = 107,
                               .batch = batch,
                               .in_place = true}),
                    "");
        }
      }
    }
  }
}

TEST_P(Convolutions, TakeImagesOfAnySizeAtRunTime) {
  Convolution of{.channels = 4,
                 .height = 12,
                 .width = 12,
                 .kernel_height = 3,
                 .kernel_width = 3,
                 .stride_height = 2,
                 .stride_width = 1,
                 .pad_top = 1,
                 .pad_left = 1,
                 .pad_bottom = 1,
                 .pad_right = 1};
  Problem problem = problem_of_convolution(of, 18);
  problem.n = Extent::at_run_time(0);
  const ConvolutionKernels layer = kernels(problem, 2);
  for (const auto& [height, width] : std::vector<std::pair<std::int64_t, std::int64_t>>{{12, 12},
                                                                                        {1, 1},
                                                                                        {1, 40},
                                                                                        {33, 2},
                                                                                        {24, 25},
                                                                                        {12, 0},
                                                                                        {0, 13},
                                                                                        {5, 5},
                                                                                        {6, 6},
                                                                                        {7, 7},
                                                                                        {8, 8},
                                                                                        {9, 9},
                                                                                        {10, 10},
                                                                                        {11, 11},
                                                                                        {12, 12}}) {
    EXPECT_EQ(layer.run({.height = height, .width = width}), "");
    EXPECT_EQ(layer.run({.x_layout = Layout::tokens_major, .height = height, .width = width}), "");
  }
}

TEST_P(Convolutions, OfOnePixelReadImagesInTheirOrder) {
  const Convolution of{
      .channels = 5, .height = 3, .width = 3, .kernel_height = 3, .kernel_width = 3};
  const ConvolutionKernels layer = kernels(problem_of_convolution(of, 20));
  for (const Layout x : {Layout::row_major, Layout::tokens_major}) {
    for (const Layout y : {Layout::row_major, Layout::tokens_major}) {
      EXPECT_EQ(layer.run({.x_layout = x, .y_layout = y}), "");
    }
  }
}

TEST_P(Convolutions, FewAndNoEntries) {
  const Convolution of = padded_3x3(40, 6, 18);
  for (const std::int64_t percent : {0, 2, 100}) {
    if (family() == "dense" && percent < 100) continue;
    EXPECT_EQ(kernels(problem_of_convolution(of, 30, percent)).run({}), "") << percent;
  }
  if (family() == "dense") return;
  Problem none = problem_of_convolution(of, 3, 0);
  none.a = CsrMatrix{3, 360, {0, 0, 0, 0}, {}, {}};
  EXPECT_EQ(kernels(none).run({}), "");
}

constexpr std::array k_cases = {
    FamilyAndIsa{"reference", HostIsa::avx512}, FamilyAndIsa{"reference", HostIsa::generic},
    FamilyAndIsa{"csr", HostIsa::avx512},       FamilyAndIsa{"csr", HostIsa::avx2},
    FamilyAndIsa{"csr", HostIsa::generic},      FamilyAndIsa{"compact", HostIsa::avx512},
    FamilyAndIsa{"compact", HostIsa::avx2},     FamilyAndIsa{"dense", HostIsa::avx512},
    FamilyAndIsa{"dense", HostIsa::avx2},       FamilyAndIsa{"unrolled", HostIsa::avx512},
    FamilyAndIsa{"unrolled", HostIsa::avx2},    FamilyAndIsa{"unrolled", HostIsa::generic}};

INSTANTIATE_TEST_SUITE_P(Host, Convolutions, testing::ValuesIn(k_cases), [](const auto& instance) {
  return std::string(std::get<0>(instance.param)) + "_" + to_string(std::get<1>(instance.param));
});

}  // namespace

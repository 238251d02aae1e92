// Convolutions whose images have channels, pixels or filters 2^31 and 2^32 bytes apart.

#include <gtest/gtest.h>

#include <cstdint>
#include <new>
#include <string>
#include <tuple>
#include <vector>

#include "plan/convolution.hpp"
#include "tests/support/layer_testing.hpp"
#include "tests/support/sparse_floats.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;

constexpr std::int64_t k_filters = 9;

/// Images of 3 channels, 6 x 7 pixels, to 3 x 7.
Convolution near_images() {
  return {.channels = 3,
          .height = 6,
          .width = 7,
          .kernel_height = 3,
          .kernel_width = 3,
          .stride_height = 2,
          .pad_top = 1,
          .pad_left = 1,
          .pad_bottom = 1,
          .pad_right = 1};
}

/// An image of nearly all stride: few of its pixels are read, the last one 2^30 floats behind the
/// first; 3 x 4 come out.
Convolution sparse_image(std::int64_t distance_bytes) {
  Convolution of{.channels = 2,
                 .height = 2050,
                 .width = 0,
                 .kernel_height = 2,
                 .kernel_width = 2,
                 .stride_height = 1024,
                 .stride_width = 0,
                 .pad_left = 1,
                 .dilation_height = 1};
  of.width = distance_bytes / 4 / 2048;
  of.stride_width = of.width / 3;
  return of;
}

Problem problem_of_far(const Convolution& of) {
  Problem problem;
  problem.operation = Operation::conv2d;
  problem.a = random_matrix(k_filters, of.channels * of.kernel_height * of.kernel_width, 0.3, 5);
  problem.convolution = of;
  return problem;
}

/// Family, instruction set and distance in bytes.
class FarImages : public testing::TestWithParam<std::tuple<const char*, std::int64_t>> {
 protected:
  static std::string family() { return std::get<0>(GetParam()); }
  static std::int64_t floats() { return std::get<1>(GetParam()) / 4; }

  static Kernel compile_far_images(const Convolution& of) {
    CompileOptions options;
    options.policy.family = family();
    options.verify = VerifyMode::none;
    return Compiler(options, uncached()).compile(problem_of_far(of));
  }

  /// Runs it on operands that lie as `x` and `y` say, and compares it with the product.
  static void expect_product(const Convolution& of, const LayerPlace& x, const LayerPlace& y) {
    const SparseFloats image(x.extent());
    const SparseFloats result(y.extent());
    if (!image.mapped() || !result.mapped()) {
      GTEST_SKIP() << "this machine gives no address space of that size";
    }
    const std::int64_t n = of.output_height() * of.output_width();
    const std::int64_t k = of.channels * of.kernel_height * of.kernel_width;
    std::vector<float> patches(index(k * n));
    for (std::int64_t i = 0; i < k * n; ++i) {
      const PatchElement element = patch_element(of, i / n, i % n);
      if (element.pixel < 0) continue;
      float& at = image.data()[x(element.channel, element.pixel)];
      if (at == 0) at = static_cast<float>(i % 97 + 1) / 64;
      patches[index(i)] = at;
    }
    const Kernel kernel = compile_far_images(of);
    const std::vector<float> expected =
        reference_product(*problem_of_far(of).a, kernel.info().target.isa(), patches.data(), n, n);

    kernel.run({.b = {image.data(), {.ld = x.ld, .layout = x.layout}},
                .c = {result.data(), {.ld = y.ld, .layout = y.layout}}});

    for (std::int64_t i = 0; i < k_filters * n; ++i) {
      ASSERT_TRUE(same_value(result.data()[y(i / n, i % n)], expected[index(i)]))
          << "filter " << i / n << ", pixel " << i % n;
    }
  }
};

TEST_P(FarImages, HaveChannelsAndFiltersFarApart) {
  const Convolution of = near_images();
  expect_product(of, {.layout = Layout::row_major, .features = 3, .n = 42, .ld = floats() + 3},
                 {.layout = Layout::row_major, .features = k_filters, .n = 21, .ld = floats() + 1});
}

TEST_P(FarImages, HavePixelsFarApart) {
  const Convolution of = near_images();
  const std::int64_t apart = floats() / 8;  // the last of 42 is beyond the distance
  expect_product(of, {.layout = Layout::tokens_major, .features = 3, .n = 42, .ld = apart + 5},
                 {.layout = Layout::tokens_major, .features = k_filters, .n = 21, .ld = apart + 7});
}

TEST_P(FarImages, AreThemselvesSoLarge) {
  const Convolution of = sparse_image(std::get<1>(GetParam()));
  ASSERT_GE(of.height * of.width, floats());
  const std::int64_t n = of.output_height() * of.output_width();
  for (const Layout layout : {Layout::row_major, Layout::tokens_major}) {
    const std::int64_t ld = layout == Layout::row_major ? of.height * of.width : of.channels;
    expect_product(of, {layout, of.channels, of.height * of.width, ld},
                   {Layout::row_major, k_filters, n, n});
  }
}

INSTANTIATE_TEST_SUITE_P(
    Host, FarImages,
    testing::Combine(testing::Values("reference", "csr", "compact", "unrolled"),
                     testing::Values(std::int64_t{1} << 31, std::int64_t{1} << 32)),
    [](const auto& param) {
      return std::string(std::get<0>(param.param)) +
             (std::get<1>(param.param) == std::int64_t{1} << 31 ? "_2_31" : "_2_32");
    });

}  // namespace

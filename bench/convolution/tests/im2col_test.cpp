#include "bench/convolution/im2col.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "plan/convolution.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;

/// Element by element.
std::vector<float> all_patches(const Convolution& of, const std::vector<float>& x) {
  std::vector<float> patches;
  const std::int64_t rows = of.channels * of.kernel_height * of.kernel_width;
  for (std::int64_t k = 0; k < rows; ++k) {
    for (std::int64_t j = 0; j < of.output_height() * of.output_width(); ++j) {
      const PatchElement element = patch_element(of, k, j);
      const std::int64_t at = element.channel * of.height * of.width + element.pixel;
      patches.push_back(element.pixel < 0 ? 0.0F : x[static_cast<std::size_t>(at)]);
    }
  }
  return patches;
}

/// Rows of pixels with a tap after another, as rows of B with a channel after another.
std::vector<float> in_order_of_channels(const Convolution& of, const std::vector<float>& tokens) {
  std::vector<float> patches;
  const std::int64_t taps = of.kernel_height * of.kernel_width;
  const std::int64_t rows = of.channels * taps;
  for (std::int64_t k = 0; k < rows; ++k) {
    for (std::int64_t j = 0; j < of.output_height() * of.output_width(); ++j) {
      const std::int64_t of_token = k % taps * of.channels + k / taps;
      patches.push_back(tokens[static_cast<std::size_t>(j * rows + of_token)]);
    }
  }
  return patches;
}

/// NCHW as NHWC.
std::vector<float> in_pixels(const Convolution& of, const std::vector<float>& x) {
  std::vector<float> pixels;
  for (std::int64_t pixel = 0; pixel < of.height * of.width; ++pixel) {
    for (std::int64_t channel = 0; channel < of.channels; ++channel) {
      pixels.push_back(x[static_cast<std::size_t>(channel * of.height * of.width + pixel)]);
    }
  }
  return pixels;
}

TEST(Im2col, CopiesEveryPatch) {
  WorkerPool pool(2);
  for (const std::int64_t stride : {1, 2, 3}) {
    for (const std::int64_t pad : {0, 1, 4}) {
      for (const std::int64_t dilation : {1, 2}) {
        const Convolution of{3, 9, 8, 3, 4, stride, stride, pad, 2, 1, pad, dilation, dilation, 1};
        std::vector<float> x(static_cast<std::size_t>(3 * 9 * 8));
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + 1);
        const std::vector<float> expected = all_patches(of, x);
        std::vector<float> found(expected.size(), -1.0F);

        bench::im2col(of, x.data(), found.data(), pool);

        EXPECT_EQ(found, expected) << to_string(of);

        std::vector<float> tokens(expected.size(), -1.0F);
        bench::im2col_tokens(of, in_pixels(of, x).data(), tokens.data(), pool);

        EXPECT_EQ(in_order_of_channels(of, tokens), expected) << to_string(of);
      }
    }
  }
}

TEST(Im2col, WeightsMeetTheTapsOfAPixelInTheirOrder) {
  CsrMatrix weights;
  weights.rows = 1;
  weights.cols = 6;  // two channels of three taps
  weights.row_ptrs = {0, 3};
  weights.col_idxs = {1, 3, 5};
  weights.values = {1, 2, 3};

  const CsrMatrix moved = bench::with_taps_outermost(weights, 3);

  EXPECT_EQ(moved.col_idxs, (std::vector<std::int32_t>{2, 1, 5}));
  EXPECT_EQ(moved.values, weights.values);
}

}  // namespace
